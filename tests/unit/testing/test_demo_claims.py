"""The demo says that the story happened only if it did."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hpc_elastic.rendezvous.record import (
    Attempt,
    Closed,
    Member,
    NodeState,
    Outcome,
    Presence,
    Round,
    Verdict,
)
from hpc_elastic.status.snapshot import AttemptSnapshot, RoundSnapshot, RunSnapshot
from hpc_elastic.testing.demo.story import NODES, claims
from hpc_elastic.testing.demo.watching import JobLook, Seen

STOP_STEP = 87
FIRST, SECOND = 1, 2


def a_round(number: int) -> RoundSnapshot:
    members = tuple(Member(f"{number}-n{i}-x", f"n{i}", 1, "default", "127.0.0.1") for i in range(NODES))
    proposal = Round(number, (number,), members, "127.0.0.1", 1, "", 0, 0, "", "w")
    return RoundSnapshot(proposal, verdict=Verdict(number, True, "", "", "w"))


def a_presence(attempt: int, index: int, outcome: Outcome) -> Presence:
    node, name = f"{attempt}-n{index}-x", f"n{index}"
    state = NodeState.LEFT
    return Presence(node, attempt, name, index, "h", "a", 1, 1, "default", state, attempt, 9, outcome=outcome)


def a_story_that_happened() -> Seen:
    attempts = tuple(AttemptSnapshot(Attempt(k, "c", "1", "", k - 1, "", (), "w")) for k in (FIRST, SECOND))
    run = RunSnapshot(
        Path("run"),
        attempts=attempts,
        rounds=(a_round(FIRST), a_round(SECOND)),
        closings=(Closed(3, SECOND, True, SECOND, 0, "", "", "w"),),
        presences=tuple(a_presence(FIRST, i, Outcome.SAVED) for i in range(NODES)),
    )
    logs = {(FIRST, rank): f"rank {rank} of 4 starts at step 0 of 240\n" for rank in range(NODES)}
    logs |= {
        (SECOND, rank): f"rank {rank} of 4 starts at step {STOP_STEP + 1} of 240\n" for rank in range(NODES)
    }
    logs[SECOND, 0] += "step 90 loss 0.3\ndone after 240 steps: test accuracy 0.9500\n"
    return Seen(run, JobLook("COMPLETED", 1), logs)


def broken_claims(seen: Seen) -> list[str]:
    made = claims(seen, seen.rounds[0], seen.rounds[1], STOP_STEP)
    return [claim.words for claim in made if not claim.holds]


def test_a_story_that_happened_breaks_no_claim() -> None:
    assert broken_claims(a_story_that_happened()) == []


@pytest.mark.parametrize("step", [STOP_STEP, STOP_STEP + 2])
def test_a_rank_that_resumes_elsewhere_is_noticed(step: int) -> None:
    seen = a_story_that_happened()
    seen.logs[SECOND, 3] = f"rank 3 of 4 starts at step {step} of 240\n"

    assert len(broken_claims(seen)) == 1


def test_a_node_that_had_not_saved_is_noticed() -> None:
    seen = a_story_that_happened()
    unsaved = replace(seen.run.presences[2], outcome=Outcome.UNSAVED)
    seen = replace(seen, run=replace(seen.run, presences=(*seen.run.presences[:2], unsaved)))

    assert len(broken_claims(seen)) == 1


def test_a_job_that_was_requeued_twice_is_noticed() -> None:
    assert broken_claims(replace(a_story_that_happened(), job=JobLook("COMPLETED", 2))) == ["requeued once"]


def test_a_run_without_an_end_is_noticed() -> None:
    seen = a_story_that_happened()

    assert len(broken_claims(replace(seen, run=replace(seen.run, closings=())))) == 1


def test_the_last_step_is_read_from_the_log_of_rank_zero() -> None:
    seen = a_story_that_happened()

    assert (seen.step(FIRST), seen.step(SECOND)) == (-1, 90)
