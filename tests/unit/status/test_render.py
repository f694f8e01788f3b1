"""A run's record in words."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Final

from hpc_elastic.rendezvous.history import History, Strike
from hpc_elastic.rendezvous.record import (
    GUESTS,
    Attempt,
    Cause,
    Closed,
    Drain,
    End,
    Member,
    NodeState,
    Notice,
    Outcome,
    Presence,
    Reason,
    Round,
    Scope,
    Stop,
    Verdict,
)
from hpc_elastic.rendezvous.sequels import Continued, StaysAway
from hpc_elastic.status import render
from hpc_elastic.status.advice import next_move
from hpc_elastic.status.pace import Pace
from hpc_elastic.status.snapshot import AttemptSnapshot, RoundSnapshot, RunSnapshot

MEMBERS: Final = (
    Member("1-n1-a", "n1", 2, "default", "10.0.0.1"),
    Member("1-n2-b", "n2", 1, "default", "10.0.0.2"),
)
STARTED: Final = Attempt(1, "hpc", "71", "", 0, "2026-01-01T00:00:00+00:00", ("n1", "n2"), "w")
ROUND: Final = Round(1, (1,), MEMBERS, "10.0.0.1", 4000, "", 1, 2, "2026-01-01T00:00:01+00:00", "w")
RUNNING: Final = RoundSnapshot(ROUND, verdict=Verdict(1, True, "", "", "w"))
DRAIN: Final = Drain(1, Reason.PREEMPTED, 20.0, True, (), "", "w")
NOTICE: Final = Notice(1, Reason.PREEMPTED, Scope.RUN, 20.0, "1-n1-a", "SIGTERM", "", "w")
RUN: Final = RunSnapshot(
    Path("/runs/hpc-71"), "hpc-71", "train", attempts=(AttemptSnapshot(STARTED),), rounds=(RUNNING,)
)


def presence(node: str, name: str, state: NodeState, outcome: Outcome | None = None) -> Presence:
    return Presence(
        node, 1, name, 0, "h", "a", 1, 1, "default", state, 1, 5, outcome=outcome, reason="preempted"
    )


def test_a_running_run_says_where_its_ranks_are() -> None:
    run = replace(RUN, presences=(presence("1-n1-a", "n1", NodeState.CONFIRMED),))

    assert render.lines(run) == [
        "run hpc-71 (train): running on 2 nodes, 3 workers",
        "  directory /runs/hpc-71",
        "  attempt 1, 2026-01-01T00:00:00+00:00: job 71 of hpc",
        "  round 1 in attempt 1, 2026-01-01T00:00:01+00:00",
        "    n1: ranks 0 to 1, confirmed",
        "    n2: rank 2, nothing known",
        "  restarts: 1 after failures, 2 after changes of membership",
        "  next: nothing to do; read along: hpc-elastic logs hpc-71 -f",
    ]


def test_a_preempted_run_says_why_it_stopped_and_at_which_step() -> None:
    left = replace(
        RUNNING, drain=DRAIN, stop=Stop(1, 42, "w"), end=End(1, Cause.DRAIN, "n", -1, 0, "", 42, "", "w")
    )
    run = replace(
        RUN,
        attempts=(AttemptSnapshot(STARTED, notice=NOTICE),),
        rounds=(left,),
        presences=tuple(presence(m.node, m.name, NodeState.LEFT, Outcome.SAVED) for m in MEMBERS),
    )

    text = "\n".join(render.lines(run))

    assert "stopped (saved); it goes on when the job starts again" in text
    assert "job 71 of hpc; ended: preempted, saved" in text
    assert "agreed to stop at step 42; ended: drain" in text
    assert "n1: ranks 0 to 1, left (saved): preempted" in text


def test_a_cancelled_run_says_that_it_does_not_come_back_by_itself() -> None:
    run = replace(
        RUN,
        attempts=(AttemptSnapshot(STARTED, notice=replace(NOTICE, reason=Reason.CANCELLED)),),
        presences=tuple(presence(m.node, m.name, NodeState.LEFT, Outcome.SAVED) for m in MEMBERS),
    )

    assert render.summary(run) == "cancelled (saved); to go on, submit it again with this run directory"


def test_a_run_that_goes_on_as_another_job_or_not_at_all_says_so() -> None:
    gone = tuple(presence(m.node, m.name, NodeState.LEFT, Outcome.SAVED) for m in MEMBERS)
    further = replace(RUN, presences=gone, continuations=(Continued(1, "71", 0, "72", "", "w"),))

    assert render.summary(further) == "stopped (saved); it goes on when job 72 starts in its place"
    assert any(line.endswith("; goes on as job 72") for line in render.lines(further))
    assert next_move(further).startswith("wait, the job comes back by itself: squeue -j 72;")
    alone = AttemptSnapshot(STARTED, stays_away=StaysAway(1, "no sbatch here", False, "", "w"))
    nothing = replace(RUN, attempts=(alone,), presences=gone)
    assert render.summary(nothing) == "stopped (saved): no sbatch here"
    assert next_move(nothing) == "to go on, submit it again with --run-dir /runs/hpc-71"


def test_a_drain_is_shown_while_it_lasts() -> None:
    assert render.summary(replace(RUN, rounds=(replace(RUNNING, drain=DRAIN),))) == "stopping: preempted"


def test_a_closed_run_says_how() -> None:
    failed = Closed(2, 1, False, 1, 42, "rank 3 failed", "", "w")

    assert render.summary(replace(RUN, closings=(failed,))) == "failed with status 42: rank 3 failed"
    assert render.summary(replace(RUN, closings=(replace(failed, succeeded=True),))) == "done"


def test_restarts_of_the_whole_job_are_counted_by_their_cause() -> None:
    limit = replace(NOTICE, reason=Reason.TIME_LIMIT)
    told = (NOTICE, limit, NOTICE, None, NOTICE)
    starts = tuple(
        AttemptSnapshot(replace(STARTED, number=n), notice=notice) for n, notice in enumerate(told, 1)
    )

    lines = render.lines(replace(RUN, attempts=starts))

    counted = "1 after failures, 2 after changes of membership, 2 preempted, 1 time limit, 1 without a word"
    assert f"  restarts: {counted}" in lines


def test_a_node_that_is_left_out_is_named_with_the_reason() -> None:
    history = History(strikes=(Strike("n1", failures=2, losses=1),))
    without = replace(RUNNING, proposal=replace(RUNNING.proposal, history=history, left_out=("n1",)))

    told = render.lines(replace(RUN, rounds=(without,)))

    assert "  left out: n1, whose workers ended 2 rounds and whose loss 1" in told


def test_a_directory_without_a_record_has_not_started() -> None:
    assert render.lines(RunSnapshot(Path("/runs/x"))) == [
        "run x: not started",
        "  directory /runs/x",
        (
            "  next: wait for the job to start: squeue --me; "
            "if it is not there, submit it again with --run-dir /runs/x"
        ),
    ]


def test_an_attempt_without_a_round_is_joining() -> None:
    assert render.summary(replace(RUN, rounds=())) == "nodes are joining"


def test_what_cannot_be_read_is_named() -> None:
    told = render.lines(replace(RUN, problems=("rounds/1.end: bad",)))

    assert "  cannot be read: rounds/1.end: bad" in told


def test_pace_budget_and_time_left_are_shown() -> None:
    noticed = replace(NOTICE, created_at="2026-01-01T00:00:10+00:00")
    run = replace(RUN, max_restarts=3, attempts=(AttemptSnapshot(STARTED, notice=noticed),))
    run = replace(run, presences=(presence("1-n1-a", "n1", NodeState.DRAINING),))
    now_s = datetime.fromisoformat("2026-01-01T00:00:18+00:00").timestamp()

    told = render.lines(run, Pace(120, 2.5, 100, now_s - 80, 1.5), now_s)

    assert told[2:5] == [
        "  step 120, 2.5 steps/s",
        "  last save: step 100, 1 min 20 s ago, took 1.5 s",
        "  notice: preempted, 12 s left",
    ]
    assert "  restarts: 1 of 3 after failures, 2 after changes of membership" in told
    assert "  notice: preempted, its time is over" in render.lines(run, None, now_s + 60)


def test_a_long_run_of_many_nodes_fits_on_a_screen() -> None:
    members = tuple(Member(f"1-n{n}", f"n{n}", 1, "default", "a") for n in range(1000))
    starts = tuple(AttemptSnapshot(replace(STARTED, number=n)) for n in range(1, 61))
    run = replace(RUN, attempts=starts, rounds=(replace(RUNNING, proposal=replace(ROUND, members=members)),))

    told = render.lines(run)

    assert len(told) < 30
    assert "  55 earlier attempts: see `hpc-elastic report`" in told
    assert "    and 984 more" in told


def test_a_run_of_several_jobs_runs_although_the_newest_of_them_has_left() -> None:
    first, second = replace(STARTED, share="hpc/70"), replace(STARTED, number=2, job_id="72", share="hpc/70")
    run = replace(
        RUN,
        attempts=(AttemptSnapshot(first), AttemptSnapshot(second)),
        rounds=(RUNNING,),
        presences=(
            presence("1-n1-a", "n1", NodeState.CONFIRMED),
            replace(presence("2-n3-c", "n3", NodeState.LEFT, Outcome.SAVED), attempt=2),
        ),
    )

    assert render.summary(run).startswith("running on 2 nodes")
    assert next_move(run).startswith("nothing to do; read along")


def test_a_guest_that_has_left_does_not_stand_for_the_run() -> None:
    guest = replace(STARTED, number=2, job_id="72", share=GUESTS)
    run = replace(
        RUN,
        attempts=(AttemptSnapshot(STARTED), AttemptSnapshot(guest)),
        rounds=(RUNNING,),
        presences=(
            presence("1-n1-a", "n1", NodeState.CONFIRMED),
            replace(presence("2-n3-c", "n3", NodeState.LEFT, Outcome.SAVED), attempt=2),
        ),
    )

    assert render.summary(run).startswith("running on 2 nodes")


def test_a_run_that_was_started_by_hand_is_not_looked_for_in_a_queue() -> None:
    by_hand = AttemptSnapshot(
        replace(STARTED, cluster="local"), notice=replace(NOTICE, reason=Reason.UNKNOWN)
    )
    gone = tuple(presence(m.node, m.name, NodeState.LEFT, Outcome.SAVED) for m in MEMBERS)

    text = "\n".join(render.lines(replace(RUN, attempts=(by_hand,), presences=gone)))

    assert "stopped (saved); to go on, start it again with this run directory" in text
    assert "ended: cause not known, saved" in text
    assert "squeue" not in text


def test_of_ranks_that_tell_no_step_none_is_said_to_be_agreed() -> None:
    stopped = replace(RUN, rounds=(replace(RUNNING, drain=DRAIN, stop=Stop(1, 0, "w")),))

    assert "agreed" not in "\n".join(render.lines(stopped))
    assert "agreed to stop at step 0" in "\n".join(render.lines(stopped, Pace(0)))
