"""Elements of a pool, and jobs that join, that still wait when their run is over."""

from __future__ import annotations

from collections.abc import Sequence

from hpc_elastic.slurm.commands import Answer, Controller
from hpc_elastic.slurm.release import release_pending


class Scancel:
    def __init__(self, status: int = 0) -> None:
        self.called: list[Sequence[str]] = []
        self._status = status

    def __call__(self, command: Sequence[str], timeout_s: float) -> Answer:
        self.called.append(command)
        return Answer(tuple(command), self._status, complaint="refused" if self._status else "")


def test_waiting_elements_alone_are_cancelled_by_the_one_that_holds_the_claim() -> None:
    scancel = Scancel()

    said = release_pending("70", (), lambda: True, Controller(scancel))
    other = release_pending("70", (), lambda: False, Controller(scancel))

    assert scancel.called == [("scancel", "--state=PENDING", "70")]
    assert said == "elements of job 70 that still wait are taken out of the queue"
    assert other is None


def test_jobs_that_wait_to_join_are_cancelled_too_and_nobody_claims_where_there_are_none() -> None:
    scancel = Scancel()

    said = release_pending("", ("9", "12"), lambda: True, Controller(scancel))

    assert scancel.called == [("scancel", "--state=PENDING", "9"), ("scancel", "--state=PENDING", "12")]
    assert said == "jobs that wait to join it are taken out of the queue (9, 12)"


def test_nobody_claims_where_nothing_can_wait() -> None:
    claims: list[str] = []

    def claim() -> bool:
        claims.append("claimed")
        return True

    assert release_pending("", (), claim, Controller(Scancel())) is None
    assert claims == []


def test_a_refusal_is_no_harm_for_they_leave_when_they_start() -> None:
    said = release_pending("70", (), lambda: True, Controller(Scancel(status=1)))

    assert said is not None
    assert "will leave as soon as they start" in said
