"""A cancel stands in the record, for whoever is about to bring a job back."""

from __future__ import annotations

from pathlib import Path

from hpc_elastic.rendezvous import keys
from hpc_elastic.rendezvous.record import GUESTS, Attempt
from hpc_elastic.status import snapshot
from hpc_elastic.submission.cancelling import keep_away
from tests.unit.submission.run_records import NOW, HandClock, RunRecord


def cancelled(tmp_path: Path, *shares: str, after_attempt: int = 0) -> list[int]:
    run = RunRecord(tmp_path)
    for number, share in enumerate(shares, 1):
        start = Attempt(number, "slurm", f"7{number}", "", 0, NOW, (), "w", share=share)
        run.create(keys.attempt_key(number), start)
    keep_away(snapshot.read(tmp_path), after_attempt, HandClock())
    return [one.number for one in snapshot.read(tmp_path).attempts if one.stays_away is not None]


def test_of_a_job_it_is_the_newest_start_and_none_of_a_guest(tmp_path: Path) -> None:
    assert cancelled(tmp_path, "", "", GUESTS) == [2]


def test_of_a_pool_it_is_every_element(tmp_path: Path) -> None:
    assert cancelled(tmp_path, "c/7", GUESTS, "c/7") == [1, 3]


def test_of_an_earlier_job_of_the_same_run_it_is_nothing(tmp_path: Path) -> None:
    assert cancelled(tmp_path, "", after_attempt=1) == []
