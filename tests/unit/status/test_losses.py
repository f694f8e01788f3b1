"""How many starts in a row were lost, or came to their time limit, with nothing saved in between."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from hpc_elastic.rendezvous.record import Attempt, NodeState, Notice, Outcome, Presence, Reason, Scope
from hpc_elastic.status.history import History, Mark
from hpc_elastic.status.losses import stalled_limits, unsaved_losses, was_cut_off
from hpc_elastic.status.snapshot import AttemptSnapshot, RunSnapshot


def start(
    run_dir: Path, number: int, at_s: float, reason: Reason | None = Reason.NODE_FAILURE
) -> AttemptSnapshot:
    path = run_dir / "record" / "attempts" / str(number)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    os.utime(path, (at_s, at_s))
    said = None if reason is None else Notice(number, reason, Scope.RUN, 0.0, "n", "", "", "w")
    return AttemptSnapshot(Attempt(number, "c", "7", "", number, "", (), "w"), notice=said)


def save(run_dir: Path, at_s: float) -> None:
    path = run_dir / "checkpoints" / "step-5" / "state.npz"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    for one in (path, path.parent):
        os.utime(one, (at_s, at_s))


def test_starts_are_counted_back_to_the_last_that_ended_otherwise(tmp_path: Path) -> None:
    reasons = (Reason.NODE_FAILURE, Reason.PREEMPTED, None, Reason.NODE_FAILURE)
    attempts = tuple(start(tmp_path, k, 10.0 * k, reason) for k, reason in enumerate(reasons, 1))

    assert unsaved_losses(RunSnapshot(tmp_path, attempts=attempts)) == 2


def test_a_start_that_saved_does_not_count_nor_do_those_before_it(tmp_path: Path) -> None:
    attempts = tuple(start(tmp_path, k, 10.0 * k) for k in (1, 2, 3))
    save(tmp_path, 25.0)

    assert unsaved_losses(RunSnapshot(tmp_path, attempts=attempts)) == 1


def test_without_a_start_there_is_no_loss(tmp_path: Path) -> None:
    assert unsaved_losses(RunSnapshot(tmp_path)) == 0


def limited(run_dir: Path, first_steps: list[int | None], outcome: Outcome = Outcome.UNSAVED) -> RunSnapshot:
    """Starts that came to their time limit; `first_steps` are what their ranks began with."""
    numbers = range(1, len(first_steps) + 1)
    attempts = tuple(start(run_dir, k, 10.0 * k, Reason.TIME_LIMIT) for k in numbers)
    presences = tuple(
        Presence(f"{k}-n1-x", k, "n1", 0, "h", "1", 1, 1, "default", NodeState.LEFT, 1, 9, outcome=outcome)
        for k in numbers
    )
    return RunSnapshot(run_dir, attempts=attempts, presences=presences)


def told(first_steps: list[int | None]) -> History:
    marks = (
        Mark("n1", k, k, 0.0, first + 9, -1, 0.0, first)
        for k, first in enumerate(first_steps, 1)
        if first is not None
    )
    return History(tuple(marks))


@pytest.mark.parametrize(
    ("first_steps", "count"),
    [
        ([0, 0, 0], 3),
        ([0, 100, 200], 1),  # each start went on from where the one before had come to
        ([0, 50, 50], 2),
        ([None, None, None], 0),  # who tells no step may save where nobody can see it
    ],
)
def test_starts_that_came_to_their_time_limit_count_as_long_as_they_begin_at_the_same_step(
    tmp_path: Path, first_steps: list[int | None], count: int
) -> None:
    assert stalled_limits(limited(tmp_path, first_steps), told(first_steps)) == count


def test_a_start_whose_agents_could_not_ask_for_the_cause_counts_as_the_newest_alone(tmp_path: Path) -> None:
    run = limited(tmp_path, [0, 0])
    unknown = start(tmp_path, 2, 20.0, Reason.UNKNOWN)

    assert stalled_limits(replace(run, attempts=(run.attempts[0], unknown)), told([0, 0])) == 2
    first = start(tmp_path, 1, 10.0, Reason.UNKNOWN)
    assert stalled_limits(replace(run, attempts=(first, run.attempts[1])), told([0, 0])) == 1


def test_starts_whose_nodes_the_run_has_forgotten_count_by_their_first_steps(tmp_path: Path) -> None:
    run = limited(tmp_path, [0, 0, 0, 0])
    kept = tuple(one for one in run.presences if one.attempt >= 3)

    assert stalled_limits(replace(run, presences=kept), told([0, 0, 0, 0])) == 4
    assert stalled_limits(replace(run, presences=kept), told([0, 50, 50, 50])) == 3


def test_a_start_that_saved_before_its_time_limit_does_not_count(tmp_path: Path) -> None:
    steps: list[int | None] = [0, 0, 0]

    assert stalled_limits(limited(tmp_path, steps, Outcome.SAVED), told(steps)) == 0
    save(tmp_path, 25.0)
    assert stalled_limits(limited(tmp_path, steps), told(steps)) == 1


@pytest.mark.parametrize(
    ("reason", "outcome", "was_cut"),
    [
        (Reason.PREEMPTED, Outcome.UNSAVED, True),
        (Reason.PREEMPTED, Outcome.SAVED, False),
        (Reason.NODE_FAILURE, Outcome.UNSAVED, False),
    ],
)
def test_a_save_was_cut_off_where_a_preempted_start_left_unsaved(
    tmp_path: Path, reason: Reason, outcome: Outcome, was_cut: bool
) -> None:
    run = limited(tmp_path, [0], outcome)

    assert was_cut_off(replace(run, attempts=(start(tmp_path, 1, 10.0, reason),))) is was_cut
    assert not was_cut_off(RunSnapshot(tmp_path))
