"""When a job is over, and how: the record first, the cluster only where that has no end."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpc_elastic.rendezvous.record import Attempt, Closed, Notice, Reason, Scope
from hpc_elastic.status.snapshot import AttemptSnapshot, RunSnapshot
from hpc_elastic.submission.states import JobState, Seen, Sight, judge

NOW = "2026-01-01T00:00:00+00:00"


def run(
    *closings: Closed, attempts: int = 1, reason: Reason | None = None, after_attempt: int = 0
) -> RunSnapshot:
    notice = Notice(attempts, reason, Scope.RUN, 5.0, "n", "SIGTERM", NOW, "w") if reason else None
    starts = [Attempt(k, "slurm", "7", "", k - 1, NOW, (), "w") for k in range(1, attempts + 1)]
    begun = tuple(AttemptSnapshot(one, notice if one.number == attempts else None) for one in starts)
    return RunSnapshot(Path("/run"), attempts=begun, closings=closings)


def closed(*, succeeded: bool, attempt: int = 1) -> Closed:
    return Closed(2, attempt, succeeded, 1, 0 if succeeded else 3, "rank 1 failed", NOW, "w")


def seen(sight: Sight, word: str = "", *, is_settled: bool = False) -> Seen:
    return Seen(sight, word, "job 7", is_settled)


@pytest.mark.parametrize("sight", list(Sight))
def test_an_end_in_the_record_counts_whatever_the_cluster_says(sight: Sight) -> None:
    assert judge(run(closed(succeeded=True)), 0, seen(sight, "RUNNING")).state is JobState.COMPLETED
    failed = judge(run(closed(succeeded=False)), 0, seen(sight, "COMPLETED", is_settled=True))
    assert (failed.state, failed.why) == (JobState.FAILED, "rank 1 failed")


@pytest.mark.parametrize("word", ["PREEMPTED", "NODE_FAIL", "TIMEOUT", "COMPLETED", "FAILED"])
def test_an_end_that_has_not_settled_is_no_end(word: str) -> None:
    assert not judge(run(), 0, seen(Sight.ENDED, word)).state.is_final


def test_a_job_that_nobody_can_ask_about_is_unknown_and_not_over() -> None:
    assert judge(run(), 0, seen(Sight.UNSEEN, "no answer")).state is JobState.UNKNOWN
    assert judge(run(), 0, seen(Sight.GONE)).state is JobState.UNKNOWN
    assert not JobState.UNKNOWN.is_final


def test_a_waiting_job_is_requeued_once_it_has_run() -> None:
    assert judge(run(attempts=0), 0, seen(Sight.WAITING, "PENDING")).state is JobState.PENDING
    assert judge(run(attempts=1), 0, seen(Sight.WAITING, "PENDING")).state is JobState.REQUEUED
    assert judge(run(attempts=1), 1, seen(Sight.WAITING, "PENDING")).state is JobState.PENDING
    assert judge(run(), 0, seen(Sight.ACTIVE, "COMPLETING")).state is JobState.RUNNING


@pytest.mark.parametrize(
    ("word", "state"),
    [
        ("PREEMPTED", JobState.PREEMPTED),
        ("TIMEOUT", JobState.TIMEOUT),
        ("NODE_FAIL", JobState.FAILED),
        ("OUT_OF_MEMORY", JobState.FAILED),
        ("COMPLETED", JobState.FAILED),
    ],
)
def test_a_settled_end_of_the_cluster_without_one_in_the_record_is_believed(
    word: str, state: JobState
) -> None:
    judged = judge(run(), 0, seen(Sight.ENDED, word, is_settled=True))

    assert judged.state is state
    assert judged.why.startswith(f"job 7: {word}")


def test_a_cancel_is_believed_at_once() -> None:
    assert judge(run(), 0, seen(Sight.ENDED, "CANCELLED")).state is JobState.CANCELLED


def test_a_job_that_the_cluster_has_forgotten_ended_as_its_record_says() -> None:
    gone = seen(Sight.GONE, "no longer known", is_settled=True)

    assert judge(run(reason=Reason.CANCELLED), 0, gone).state is JobState.CANCELLED
    assert judge(run(reason=Reason.TIME_LIMIT), 0, gone).state is JobState.TIMEOUT
    lost = judge(run(), 0, gone)
    assert (lost.state, lost.why) == (JobState.FAILED, "job 7: no longer known, and the record has no end")
    never = judge(run(attempts=0), 0, gone)
    assert never.why == "job 7: no longer known, and no agent has recorded a start"


def test_the_failure_of_an_earlier_job_is_not_that_of_the_next_one() -> None:
    before = run(closed(succeeded=False))

    assert judge(before, 1, seen(Sight.WAITING, "PENDING")).state is JobState.PENDING
    assert judge(run(closed(succeeded=False), attempts=2), 1, seen(Sight.ACTIVE)).state is JobState.RUNNING
