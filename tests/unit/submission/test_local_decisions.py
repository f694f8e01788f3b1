"""What the supervisor of a local cluster does once all agents of an attempt have ended."""

from __future__ import annotations

import pytest

from hpc_elastic.rendezvous.record import Closed
from hpc_elastic.submission.local import Again, Over, decide
from hpc_elastic.submission.states import JobState


def closed(*, succeeded: bool) -> Closed:
    return Closed(2, 1, succeeded, 1, 0 if succeeded else 3, "rank 1 failed", "", "w")


def after(
    *codes: int,
    end: Closed | None = None,
    is_cancelled: bool = False,
    is_told: bool = False,
    may_requeue: bool = True,
) -> Again | Over:
    return decide(codes, end, is_cancelled=is_cancelled, is_told=is_told, may_requeue=may_requeue)


def test_a_run_that_is_done_is_completed_even_when_cancelled_at_the_last_moment() -> None:
    assert after(0, 0, end=closed(succeeded=True), is_cancelled=True) == Over(
        JobState.COMPLETED, "the run is done"
    )


def test_a_run_that_failed_is_not_started_again() -> None:
    assert after(3, 3, end=closed(succeeded=False), is_told=True) == Over(JobState.FAILED, "rank 1 failed")


@pytest.mark.parametrize("codes", [(80, 80), (80, 81), (81, -9), (80, 0)])
def test_a_preempted_run_is_started_again(codes: tuple[int, ...]) -> None:
    assert after(*codes, is_told=True) == Again()


def test_a_preempted_run_stays_away_where_it_may_not_come_back() -> None:
    ended = after(80, 80, is_told=True, may_requeue=False)

    assert isinstance(ended, Over)
    assert ended.state is JobState.PREEMPTED


def test_a_cancelled_run_does_not_come_back() -> None:
    assert after(80, 80, is_told=True, is_cancelled=True) == Over(JobState.CANCELLED, "cancelled")


@pytest.mark.parametrize("codes", [(1, 1), (85, 85), (-9, -9), (0, 0), (80, 80)])
def test_agents_that_end_untold_and_without_an_end_in_the_record_have_failed(codes: tuple[int, ...]) -> None:
    ended = after(*codes)

    assert isinstance(ended, Over)
    assert ended.state is JobState.FAILED
    assert ", ".join(map(str, codes)) in ended.why
