"""drain, preempt, cancel and logs from a shell: runs on the local cluster, and agents started by hand."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import hpc_elastic
from hpc_elastic.status import snapshot
from hpc_elastic.submission.job import Job
from hpc_elastic.submission.states import JobState
from tests.integration.local import functions
from tests.integration.local.processes_of import processes_of
from tests.waiting import wait_until

ROOT = Path(__file__).resolve().parents[3]
END_S = 180.0


@pytest.fixture
def run_dir(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "run"
    yield path
    if (path / "submission" / "job.json").exists():
        Job.attach(path).cancel()
    wait_until(lambda: not processes_of(path), END_S, f"no process of {path} is left")


def shell(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "hpc_elastic", *words],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=END_S,
        check=False,
    )


def training(run_dir: Path) -> Job:
    job = hpc_elastic.submit(functions.train, functions.ENDLESS, nodes=2, cluster="local", run_dir=run_dir)
    wait_until(lambda: is_at_work(run_dir), END_S, "both ranks have taken a step")
    return job


def is_at_work(run_dir: Path, ranks: int = 2) -> bool:
    return all(list(run_dir.glob(f"logs/*/*/{rank}.out")) for rank in range(ranks)) and all(
        path.stat().st_size for path in run_dir.glob("logs/*/*/*.out")
    )


@contextmanager
def following(run_dir: Path, shown: Path) -> Iterator[None]:
    """While `logs -f` of a run, which has shown the first step, goes on; it ends by itself."""
    with (
        shown.open("w") as out,
        subprocess.Popen(
            [sys.executable, "-m", "hpc_elastic", "logs", str(run_dir), "-f"],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=out,
        ) as reader,
    ):
        try:
            wait_until(lambda: "step 0\n" in shown.read_text(), END_S, "the first step is shown")
            yield
            assert reader.wait(END_S) == 0
        finally:
            reader.kill()


def saved_steps(run_dir: Path, rank: int) -> list[int]:
    steps: list[int] = json.loads((run_dir / "checkpoints" / f"{rank}.json").read_text())
    return steps


def test_a_drained_run_saves_at_one_step_and_does_not_come_back(run_dir: Path) -> None:
    job = training(run_dir)

    told = shell("drain", str(run_dir), "--seconds", "60", "--json")

    assert told.returncode == 0, told.stderr
    assert "save at the next agreed step" in json.loads(told.stdout)["told"]
    assert job.wait(END_S) is JobState.CANCELLED
    assert saved_steps(run_dir, 0) == saved_steps(run_dir, 1)
    assert len(snapshot.read(run_dir).attempts) == 1


def test_a_job_is_drained_from_python_too(run_dir: Path) -> None:
    job = training(run_dir)

    assert "in 60 s at the latest" in job.drain(60)
    assert job.wait(END_S) is JobState.CANCELLED


def test_a_rehearsed_preemption_brings_the_run_back(run_dir: Path) -> None:
    job = training(run_dir)

    told = json.loads(shell("preempt", str(run_dir), "--json").stdout)
    assert (told["order"], told["run_dir"]) == ("preempt", str(run_dir))
    assert "has its notice: the workers save and leave" in told["told"]

    wait_until(lambda: list(run_dir.glob("logs/2/*/0.out")), END_S, "the run comes back")
    told = json.loads(shell("cancel", str(run_dir), "--json").stdout)
    assert (told["order"], told["told"].endswith("is being ended")) == ("cancel", True)
    assert job.wait(END_S) is JobState.CANCELLED
    over = shell("drain", str(run_dir))
    assert over.returncode == 64
    assert "no node of attempt 2 is there any more" in over.stderr


def test_logs_follow_a_run_to_its_end_over_a_preemption(run_dir: Path, tmp_path: Path) -> None:
    job = hpc_elastic.submit(functions.train_twice, 20, nodes=2, cluster="local", run_dir=run_dir)
    wait_until(lambda: is_at_work(run_dir), END_S, "both ranks have taken a step")
    with following(run_dir, tmp_path / "shown"):
        job.preempt()

    assert job.state is JobState.COMPLETED
    steps = [line for line in (tmp_path / "shown").read_text().splitlines() if line.startswith("step ")]
    assert steps == [f"step {number}" for number in range(len(saved_steps(run_dir, 0)) + 20)]


def test_logs_follow_a_run_that_is_cancelled_to_its_end(run_dir: Path, tmp_path: Path) -> None:
    job = training(run_dir)
    with following(run_dir, tmp_path / "shown"):
        told = shell("cancel", str(run_dir))

    assert told.stdout.endswith("is being ended\n"), told.stderr
    assert job.state is JobState.CANCELLED
    status = shell("status", str(run_dir)).stdout.splitlines()
    assert ": cancelled (" in status[0], status
    assert any("; ended: cancelled" in line for line in status), status


def test_agents_started_by_hand_hear_an_order_through_the_record(run_dir: Path, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("from tests.integration.local import functions\nfunctions.train(functions.ENDLESS)\n")
    command = [sys.executable, "-m", "hpc_elastic", "run", "--run-dir", str(run_dir), str(script)]
    with subprocess.Popen(
        command,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as agent:
        wait_until(lambda: is_at_work(run_dir, ranks=1), END_S, "the worker has taken a step")
        told = shell("drain", str(run_dir))
        complaint = agent.communicate(timeout=END_S)[1]

    assert told.returncode == 0, told.stderr
    assert agent.returncode == 80, complaint
    assert saved_steps(run_dir, 0)
