"""Whether a run of a batch script of one's own is over, where its record has no end."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from hpc_elastic.backends.file import FileBackend
from hpc_elastic.rendezvous import keys, outside, record
from hpc_elastic.slurm.commands import Answer
from hpc_elastic.submission.run_end import RunEnd
from tests.unit.submission.run_records import NOW, HandClock, RunRecord

JOB = "JobId=7 JobName=x JobState=PENDING Reason=BeginTime Requeue=1 Restarts=1 BatchFlag=1"
CONFIG = "AccountingStorageType = none\nClusterName             = slurm\n"


class Slurm:
    def __init__(self) -> None:
        self.job, self.config = JOB, CONFIG
        self.asked = 0

    def __call__(self, command: Sequence[str], timeout_s: float) -> Answer:
        self.asked += 1
        shown = self.config if command[-1] == "config" else self.job if "job" in command else ""
        return Answer(tuple(command), 0, shown)


@pytest.fixture
def slurm() -> Slurm:
    return Slurm()


def stopped(run_dir: Path, *, state: record.NodeState = record.NodeState.LEFT) -> RunRecord:
    """A run whose agents were told of a preemption."""
    made = RunRecord(run_dir)
    made.begin()
    outcome = record.Outcome.SAVED if state is record.NodeState.LEFT else None
    for name in ("n1", "n2"):
        node = f"1-{name}-x"
        presence = record.Presence(
            node, 1, name, 0, name, "10.0.0.1", 0, 1, "default", state, 1, 5, outcome=outcome
        )
        made.create(keys.node_key(node), presence)
    return made


def test_a_job_that_waits_for_its_next_start_is_not_over_until_it_is_taken_out(
    tmp_path: Path, slurm: Slurm
) -> None:
    stopped(tmp_path)
    clock = HandClock()
    end = RunEnd(tmp_path, clock, slurm)

    assert not end.has_come()
    slurm.job = JOB.replace("PENDING", "CANCELLED")
    clock.sleep_s(60)
    assert end.has_come()


def test_slurm_is_left_alone_while_an_agent_is_there(tmp_path: Path, slurm: Slurm) -> None:
    stopped(tmp_path, state=record.NodeState.CONFIRMED)

    assert not RunEnd(tmp_path, HandClock(), slurm).has_come()
    assert slurm.asked == 0


def test_a_cancel_of_ours_is_on_record_and_needs_no_slurm(tmp_path: Path, slurm: Slurm) -> None:
    stopped(tmp_path)
    outside.cancel(FileBackend(tmp_path / "record"), 1, NOW, "w")

    assert RunEnd(tmp_path, HandClock(), slurm).has_come()
    assert slurm.asked == 0


@pytest.mark.parametrize("config", ["", CONFIG.replace("slurm", "another")])
def test_a_slurm_that_is_away_or_another_one_ends_nothing(tmp_path: Path, slurm: Slurm, config: str) -> None:
    stopped(tmp_path)
    slurm.config, slurm.job = config, JOB.replace("PENDING", "CANCELLED")
    clock = HandClock()
    end = RunEnd(tmp_path, clock, slurm)

    for _ in range(100):
        assert not end.has_come()
        clock.sleep_s(1)
    assert slurm.asked <= 3, "now and then"


def test_a_run_that_is_done_is_over(tmp_path: Path, slurm: Slurm) -> None:
    stopped(tmp_path).close(succeeded=True)

    assert RunEnd(tmp_path, HandClock(), slurm).has_come()
