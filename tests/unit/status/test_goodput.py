"""Every second of a run is of one kind: the kinds add up, and what was done in vain is not useful."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpc_elastic.rendezvous import record
from hpc_elastic.rendezvous.record import Cause, NodeState, Outcome, Reason
from hpc_elastic.status import goodput
from hpc_elastic.status.goodput import Kind
from hpc_elastic.status.history import History, Mark
from hpc_elastic.status.snapshot import AttemptSnapshot, RoundSnapshot, RunSnapshot

BEGAN_S = 1_767_225_600.0


def at(seconds: float) -> str:
    return datetime.fromtimestamp(BEGAN_S + seconds, timezone.utc).isoformat(timespec="milliseconds")


def attempt(number: int, began_s: float) -> AttemptSnapshot:
    return AttemptSnapshot(record.Attempt(number, "c", "7", "", number - 1, at(began_s), (), "w"))


def agreed(
    number: int, started_s: float, ended_s: float | None, drain_s: float | None = None, of: int = 1
) -> RoundSnapshot:
    members = (record.Member(f"{of}-n1", "n1", 1, "default", "a"),)
    proposal = record.Round(number, (of,), members, "a", 1, "", 0, 0, at(started_s), "w")
    cause = Cause.WORKER_FAILED if drain_s is None else Cause.DRAIN
    return RoundSnapshot(
        proposal,
        record.Verdict(number, True, "", at(started_s), "w"),
        None if drain_s is None else record.Drain(number, Reason.PREEMPTED, 9.0, True, (), at(drain_s), "w"),
        None,
        None if ended_s is None else record.End(number, cause, f"{of}-n1", 0, 1, "", -1, at(ended_s), "w"),
    )


def mark(number: int, at_s: float, step: int) -> Mark:
    return Mark("n1", 1, number, BEGAN_S + at_s, step, -1, 0.0)


def spent(
    attempts: Sequence[AttemptSnapshot], rounds: Sequence[RoundSnapshot], marks: Sequence[Mark], now_s: float
) -> goodput.Goodput:
    run = RunSnapshot(Path("/r"), attempts=tuple(attempts), rounds=tuple(rounds))
    return goodput.of_run(run, History(tuple(marks)), BEGAN_S + now_s)


def seconds(found: goodput.Goodput) -> dict[str, float]:
    return {kind.value: round(found.seconds(kind), 2) for kind in Kind if found.seconds(kind) > 0}


def test_a_round_that_runs_is_useful_from_its_first_step_on() -> None:
    found = spent([attempt(1, 0)], [agreed(1, 2, None)], [mark(1, 5, 0), mark(1, 35, 300)], 100)

    assert seconds(found) == {"restarting": 5.0, "useful": 95.0}
    assert found.share == pytest.approx(0.95)


def test_steps_done_again_were_done_in_vain_the_first_time() -> None:
    # Steps 0 to 99 in 100 s, then back to 60: 40 of 100 steps were lost.
    rounds = [agreed(1, 0, 100), agreed(2, 105, 205)]
    marks = [mark(1, 0, 0), mark(1, 100, 99), mark(2, 110, 60), mark(2, 205, 155)]

    assert seconds(spent([attempt(1, 0)], rounds, marks, 205)) == {
        "useful": 155.0,
        "repeated": 40.0,
        "restarting": 10.0,
    }


def test_a_round_began_where_its_ranks_say_although_it_was_looked_at_later() -> None:
    rounds = [agreed(1, 0, 100), agreed(2, 105, 205)]
    late = replace(mark(2, 120, 75), first_step=60)
    marks = [mark(1, 0, 0), mark(1, 100, 99), late, mark(2, 205, 155)]

    assert seconds(spent([attempt(1, 0)], rounds, marks, 205))["repeated"] == 40.0


def test_a_preemption_is_saving_then_waiting_in_the_queue() -> None:
    attempts = [attempt(1, 0), attempt(2, 200)]
    rounds = [agreed(1, 1, 60, drain_s=50), agreed(2, 204, None, of=2)]
    marks = [mark(1, 3, 0), mark(1, 60, 57), mark(2, 210, 58)]

    assert seconds(spent(attempts, rounds, marks, 300)) == {
        "restarting": 13.0,
        "useful": 137.0,
        "saving": 10.0,
        "waiting": 140.0,
    }


def test_a_run_whose_nodes_have_left_waits() -> None:
    presence = record.Presence(
        *("1-n1", 1, "n1", 0, "h", "a", 1, 1, "default", NodeState.LEFT, 1, 9), outcome=Outcome.SAVED
    )
    run = RunSnapshot(
        Path("/r"),
        attempts=(attempt(1, 0),),
        rounds=(agreed(1, 0, 60, drain_s=50),),
        presences=(presence,),
    )

    found = goodput.of_run(run, History(), BEGAN_S + 100)
    back = goodput.of_run(replace(run, presences=()), History(), BEGAN_S + 100)

    assert seconds(found) == {"useful": 50.0, "saving": 10.0, "waiting": 40.0}
    assert seconds(back) == {"useful": 50.0, "saving": 10.0, "restarting": 40.0}


def test_a_run_that_has_not_started_has_spent_nothing() -> None:
    found = spent([], [], [], 10)

    assert (found.stretches, found.elapsed_s, found.share) == ((), 0.0, 0.0)


times = st.floats(-50, 500)


@given(
    starts=st.lists(times, min_size=1, max_size=4),
    rounds=st.lists(st.tuples(times, st.none() | times, st.none() | times, st.integers(1, 4)), max_size=6),
    marks=st.lists(st.tuples(st.integers(1, 6), times, st.integers(-1, 50)), max_size=12),
    now_s=times,
)
def test_the_kinds_always_add_up_to_the_elapsed_time(
    starts: list[float],
    rounds: list[tuple[float, float | None, float | None, int]],
    marks: list[tuple[int, float, int]],
    now_s: float,
) -> None:
    found = spent(
        [attempt(number, began) for number, began in enumerate(starts, 1)],
        [agreed(number, *one) for number, one in enumerate(rounds, 1)],
        sorted((mark(*one) for one in marks), key=lambda one: one.at_s),
        now_s,
    )

    assert sum(found.seconds(kind) for kind in Kind) == pytest.approx(found.elapsed_s)
    assert all(one.length_s > 0 for one in found.stretches)
    for one, following in zip(found.stretches, found.stretches[1:], strict=False):
        assert one.end_s == following.begin_s
