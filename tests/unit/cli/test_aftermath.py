"""What the record says of one attempt once its agents have left."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hpc_elastic.backends.memory import MemoryBackend
from hpc_elastic.cli.aftermath import aftermath
from hpc_elastic.cli.requeue import others_may_come
from hpc_elastic.cli.requeue_desk import Desk
from hpc_elastic.rendezvous import outside
from hpc_elastic.rendezvous.codec import decode
from hpc_elastic.rendezvous.record import (
    Attempt,
    Closed,
    Drain,
    Member,
    NodeState,
    Notice,
    Outcome,
    Presence,
    Reason,
    Round,
    Scope,
    Verdict,
)
from hpc_elastic.rendezvous.sequels import Continued, StaysAway
from hpc_elastic.slurm.environment import JobEnvironment
from hpc_elastic.slurm.requester import Report
from hpc_elastic.slurm.requeue import Aftermath
from hpc_elastic.status.snapshot import AttemptSnapshot, RoundSnapshot, RunSnapshot

BATCH = {"SLURM_CLUSTER_NAME": "alps", "SLURM_JOB_ID": "71", "SLURM_JOB_NODELIST": "n[1-2]"}


def attempt(
    number: int, restart_count: int, notice: Notice | None = None, cause: Notice | None = None
) -> AttemptSnapshot:
    start = Attempt(number, "alps", "71", "", restart_count, "now", ("n1", "n2"), "w")
    return AttemptSnapshot(start, notice=notice, cause=cause)


def presence(number: int, name: str, outcome: Outcome | None) -> Presence:
    state = NodeState.CONFIRMED if outcome is None else NodeState.LEFT
    node = f"{number}-{name}-x"
    return Presence(node, number, name, 0, "h", "127.0.0.1", 1, 1, "default", state, 1, 9, outcome=outcome)


def a_round(
    number: int, of_attempt: int, names: tuple[str, ...], drain: Drain | None = None
) -> RoundSnapshot:
    members = tuple(Member(f"{of_attempt}-{name}-x", name, 1, "default", "127.0.0.1") for name in names)
    proposal = Round(number, (of_attempt,), members, "127.0.0.1", 1, "", 0, 0, "now", "w")
    return RoundSnapshot(proposal, verdict=Verdict(number, True, "", "now", "w"), drain=drain)


def notice(number: int, reason: Reason) -> Notice:
    return Notice(number, reason, Scope.RUN, 17.0, f"{number}-n1-x", "SIGTERM", "now", "w")


def seen(run: RunSnapshot, restart_count: int = 0) -> Aftermath:
    env = BATCH | ({"SLURM_RESTART_COUNT": str(restart_count)} if restart_count else {})
    job = JobEnvironment.parse(env)
    assert job is not None
    return aftermath(run, job, 80, may_requeue=True)


def test_of_several_attempts_the_one_of_this_start_counts() -> None:
    run = RunSnapshot(
        Path("r"),
        attempts=(attempt(1, 0, notice(1, Reason.PREEMPTED)), attempt(2, 1)),
        rounds=(a_round(1, 1, ("n1", "n2")), a_round(2, 2, ("n1", "n2"))),
        presences=(
            presence(1, "n1", Outcome.SAVED),
            presence(2, "n1", None),
            presence(2, "n2", Outcome.FAILED),
        ),
    )

    first, second = seen(run, 0), seen(run, 1)

    assert (first.attempt, first.is_told_to_stop) == (1, True)
    assert (second.attempt, second.is_told_to_stop) == (2, False)
    assert second.outcomes == (None, Outcome.FAILED)
    assert first.outcomes == (Outcome.SAVED, None)


def test_the_bettered_cause_counts_before_the_first_notice() -> None:
    both = attempt(1, 0, notice(1, Reason.UNKNOWN), notice(1, Reason.CANCELLED))

    found = seen(RunSnapshot(Path("r"), attempts=(both,))).notice

    assert found is not None
    assert found.reason is Reason.CANCELLED


def test_a_node_that_was_lost_before_the_last_round_has_nothing_to_save() -> None:
    run = RunSnapshot(
        Path("r"),
        attempts=(attempt(1, 0, notice(1, Reason.PREEMPTED)),),
        rounds=(a_round(1, 1, ("n1", "n2")), a_round(2, 1, ("n1",))),
        presences=(presence(1, "n1", Outcome.SAVED), presence(1, "n2", None)),
    )

    assert seen(run).outcomes == (Outcome.SAVED,)


def test_a_drain_of_everybody_in_the_last_round_is_seen_without_a_notice() -> None:
    drain = Drain(1, Reason.USER, 60.0, True, (), "now", "w")
    run = RunSnapshot(Path("r"), attempts=(attempt(1, 0),), rounds=(a_round(1, 1, ("n1",), drain),))

    assert seen(run).is_drained


def test_a_success_binds_every_attempt_and_a_failure_only_its_own() -> None:
    failed = Closed(2, 1, False, 1, 7, "", "now", "w")
    done = Closed(4, 2, True, 3, 0, "", "now", "w")
    attempts = (attempt(1, 0), attempt(2, 1))

    assert seen(RunSnapshot(Path("r"), attempts=attempts, closings=(failed,)), 0).closed == failed
    assert seen(RunSnapshot(Path("r"), attempts=attempts, closings=(failed,)), 1).closed is None
    assert seen(RunSnapshot(Path("r"), closings=(done,)), 5).closed == done


def test_an_attempt_that_never_came_to_a_round_has_nothing_to_save() -> None:
    run = RunSnapshot(Path("r"), attempts=(attempt(1, 0),), presences=(presence(1, "n1", None),))

    assert seen(run).outcomes == ()


def test_bad_nodes_are_those_the_last_round_goes_without_unless_they_are_too_many() -> None:
    last = a_round(2, 1, ("n1", "n2"))
    last = replace(last, proposal=replace(last.proposal, left_out=("n3",)))
    run = RunSnapshot(Path(), attempts=(attempt(1, 0),), rounds=(last,))
    job = JobEnvironment.parse(BATCH)
    assert job is not None

    def bad(most: int) -> tuple[str, ...]:
        return aftermath(run, job, 80, may_requeue=True, most_bad_nodes=most).bad_nodes

    assert [bad(0), bad(1), bad(2)] == [(), ("n3",), ("n3",)]


def test_an_empty_record_has_no_attempt() -> None:
    assert seen(RunSnapshot(Path("r"))).attempt is None


def test_a_claim_has_one_holder() -> None:
    backend = MemoryBackend()
    after = Aftermath("71", "71", 0, 80, attempt=1)

    assert [Desk(backend, after).claim(0) for _ in range(3)] == [True, False, False]
    assert Desk(backend, after).claim(1)


def test_a_notice_whose_cause_no_agent_asked_for_is_bettered_by_the_batch_side() -> None:
    backend = MemoryBackend()
    after = Aftermath("71", "71", 0, 80, attempt=1, notice=notice(1, Reason.UNKNOWN))

    Desk(backend, after).note_cause(None)
    assert backend.read("attempts/1.cause") is None
    Desk(backend, after).note_cause(Reason.PREEMPTED)

    found = decode(backend.read("attempts/1.cause") or b"")
    assert isinstance(found, Notice)
    assert found.reason is Reason.PREEMPTED


def test_how_the_run_goes_on_is_written_down_for_those_who_follow_it() -> None:
    backend = MemoryBackend()
    desk = Desk(backend, Aftermath("71", "71", 2, 80, attempt=4))

    desk.note_outcome(Report(80, "requeued", is_requeued=True))
    desk.note_outcome(Report(80, "the shell asks", is_open=True))
    assert backend.names("attempts") == frozenset()
    desk.note_outcome(Report(80, "as another job", continued_by="72"))
    desk.note_outcome(Report(80, "refused"))

    found = decode(backend.read("attempts/4.continuation.71.2") or b"")
    assert isinstance(found, Continued)
    assert (found.of_job, found.job) == ("71", "72")
    away = decode(backend.read("attempts/4.stays_away") or b"")
    assert isinstance(away, StaysAway)
    assert (away.why, away.is_cancelled, desk.is_cancelled()) == ("refused", False, False)


def test_the_batch_side_hears_of_a_cancel_that_slurm_did_not_tell_it() -> None:
    backend = MemoryBackend()
    desk = Desk(backend, Aftermath("71", "71", 0, 80, attempt=1))
    assert not desk.is_cancelled()

    outside.cancel(backend, 1, "now", "somebody")

    assert desk.is_cancelled()
    desk.note_outcome(Report(80, "cancelled meanwhile"))
    assert desk.is_cancelled(), "what was said first stands"


def test_of_a_round_of_several_jobs_the_own_nodes_alone_say_whether_it_is_saved() -> None:
    mine, theirs = attempt(1, 0, notice(1, Reason.PREEMPTED)), attempt(2, 0)
    members = (Member("1-n1-x", "n1", 1, "d", "a"), Member("2-n9-x", "n9", 1, "d", "a"))
    shared = Round(1, (1, 2), members, "a", 1, "", 0, 0, "now", "w")
    run = RunSnapshot(
        Path("r"),
        attempts=(mine, replace(theirs, start=replace(theirs.start, job_id="72"))),
        rounds=(RoundSnapshot(shared, verdict=Verdict(1, True, "", "now", "w")),),
        presences=(presence(1, "n1", Outcome.SAVED), presence(2, "n9", None)),
    )

    assert seen(run).outcomes == (Outcome.SAVED,)


def test_a_job_whose_only_node_is_kept_out_names_all_nodes_that_its_starts_have_met_with() -> None:
    def start(number: int, task: str) -> AttemptSnapshot:
        return AttemptSnapshot(Attempt(number, "alps", "71", task, number - 1, "now", ("n1",), "w"))

    run = RunSnapshot(
        Path("r"),
        attempts=(start(1, "3"), start(2, "3"), start(3, "4")),
        presences=(
            presence(1, "n1", Outcome.FAILED),
            presence(2, "n2", Outcome.FAILED),
            presence(3, "n4", Outcome.FAILED),
        ),
    )
    job = JobEnvironment.parse(BATCH | {"SLURM_JOB_NODELIST": "n2", "SLURM_RESTART_COUNT": "1"})
    assert job is not None

    def bad_nodes(step_status: int, most: int) -> tuple[str, ...]:
        return aftermath(run, job, step_status, may_requeue=True, most_bad_nodes=most).bad_nodes

    assert bad_nodes(83, 2) == ("n1", "n2")
    assert bad_nodes(83, 1) == (), "so many are hardly all bad"
    assert bad_nodes(80, 2) == ()


def test_of_an_element_the_starts_count_since_anybody_had_a_round() -> None:
    def start(number: int, task: str, restart_count: int) -> AttemptSnapshot:
        return AttemptSnapshot(Attempt(number, "alps", "71", task, restart_count, "now", ("n1",), "w"))

    starts = (start(1, "3", 0), start(2, "4", 0), start(3, "3", 1), start(4, "4", 1), start(5, "3", 2))
    job = JobEnvironment.parse(
        BATCH | {"SLURM_ARRAY_JOB_ID": "71", "SLURM_ARRAY_TASK_ID": "3", "SLURM_RESTART_COUNT": "2"}
    )
    assert job is not None

    def waits(*rounds: RoundSnapshot) -> int:
        return aftermath(
            RunSnapshot(Path("r"), attempts=starts, rounds=rounds), job, 85, may_requeue=True
        ).waits

    assert waits() == 3
    assert waits(a_round(1, 2, ("n4",))) == 2
    assert waits(a_round(1, 4, ("n4",))) == 1


@pytest.mark.parametrize(
    ("states", "may"),
    [
        ({"1": "RUNNING", "2-7%3": "PENDING"}, True),
        ({"1": "RUNNING", "2": "COMPLETED", "3": "CANCELLED"}, False),
        ({"1": "RUNNING", "2": "RUNNING"}, True),
        ({"1": "RUNNING"}, False),
        ({}, True),
    ],
)
def test_others_of_a_pool_may_come_while_one_runs_or_waits_or_slurm_does_not_say(
    states: dict[str, str], may: bool
) -> None:
    who = "JobName=x UserId=u(1) GroupId=g(1)"
    shown = "".join(
        f"JobId={70 + index} ArrayJobId=70 ArrayTaskId={task} {who} JobState={state}\n"
        for index, (task, state) in enumerate(states.items())
    )

    assert others_may_come(shown, "70", "70_1") is may
