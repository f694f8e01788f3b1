"""What a person at a terminal has of a job: its lines, what it waits for, an interrupt, a lost node."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import hpc_elastic
from hpc_elastic.errors import SubmissionError, UsageError
from hpc_elastic.status import snapshot
from hpc_elastic.submission.job import Job
from hpc_elastic.submission.states import JobState
from tests.integration.local import functions
from tests.integration.local.processes_of import processes_of
from tests.waiting import wait_until

ROOT = Path(__file__).resolve().parents[3]
END_S = 180.0
SHORT = "for step in range(3):\n    print('step', step, flush=True)\n"
# Begins when it is told to.
HELD = "import pathlib, time\nwhile not pathlib.Path('{go}').exists():\n    time.sleep(0.02)\n" + SHORT
ENDLESS = "import time\nprint('step 0', flush=True)\ntime.sleep(600)\n"


@pytest.fixture
def run_dir(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "run"
    yield path
    if (path / "submission" / "job.json").exists():
        Job.attach(path).cancel()
    wait_until(lambda: not processes_of(path), END_S, f"no process of {path} is left")


def submits(run_dir: Path, text: str, *options: str) -> subprocess.Popen[str]:
    """`hpc-elastic submit` on this machine, of a script with this text."""
    script = run_dir.with_name("train.py")
    script.write_text(text)
    words = ("submit", "--cluster", "local", "--nodes", "1", "--run-dir", str(run_dir), *options, str(script))
    return subprocess.Popen(
        [sys.executable, "-m", "hpc_elastic", *words],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def first_word(client: subprocess.Popen[str]) -> str:
    """What it waits for, as soon as it says so: from then on it watches."""
    assert client.stderr is not None
    return client.stderr.readline()


def test_the_lines_of_a_rank_come_one_by_one_over_a_requeue_until_the_end(run_dir: Path) -> None:
    job = hpc_elastic.submit(functions.train_twice, 20, nodes=1, cluster="local", run_dir=run_dir)
    seen = []

    for line in job.follow():
        seen.append(line)
        if line == "step 20":
            job.preempt()

    steps = [line for line in seen if line.startswith("step ")]
    saved = len(json.loads((run_dir / "checkpoints" / "0.json").read_text()))
    assert steps == [f"step {number}" for number in range(saved + 20)]
    assert len(snapshot.read(run_dir).attempts) == 2


def test_submit_prints_one_json_object_where_asked(run_dir: Path) -> None:
    client = submits(run_dir, SHORT, "--json", "--wait")
    out, err = client.communicate(timeout=END_S)

    assert client.returncode == 0, err
    job = Job.attach(run_dir)
    assert json.loads(out) == {"job": job.job_id, "run": job.run_id, "directory": str(run_dir)}
    assert err.splitlines()[-1] == f"hpc-elastic: run {job.run_id} is done"


def test_submit_follows_the_output_and_says_meanwhile_what_is_waited_for(run_dir: Path) -> None:
    go = run_dir.with_name("go")
    client = submits(run_dir, HELD.format(go=go), "-f")
    first = first_word(client)
    go.touch()
    out, err = client.communicate(timeout=END_S)

    assert client.returncode == 0, err
    assert out.splitlines()[3:] == ["step 0", "step 1", "step 2"]
    assert first.startswith(("waiting for nodes to join", "running: round 1"))


def test_a_job_that_fails_ends_the_watching_with_a_status_and_one_line(run_dir: Path) -> None:
    client = submits(run_dir, "raise SystemExit(3)\n", "--wait", "--max-restarts", "0")
    _, err = client.communicate(timeout=END_S)

    assert client.returncode == 1
    assert "rank 0 on local0, round 1" in err.splitlines()[-1]
    assert "Traceback" not in err


@pytest.mark.parametrize("option", ["--wait", "-f"])
def test_an_interrupt_ends_the_watching_and_the_job_goes_on(run_dir: Path, option: str) -> None:
    client = submits(run_dir, ENDLESS, option)
    first_word(client)
    wait_until(lambda: list(run_dir.glob("logs/*/*/0.out")) != [], END_S, "the script runs")

    client.send_signal(signal.SIGINT)
    _, err = client.communicate(timeout=END_S)

    assert client.returncode == 130
    last = err.splitlines()[-1]
    assert "no longer watching; job local-" in last
    assert f"hpc-elastic cancel {run_dir}" in last
    assert Job.attach(run_dir).state is JobState.RUNNING


def test_a_killed_node_is_missed_and_the_others_go_on(run_dir: Path) -> None:
    job = hpc_elastic.submit(
        functions.train, functions.ENDLESS, nodes="1:3", cluster="local", run_dir=run_dir
    )
    wait_until(
        lambda: len([path for path in run_dir.glob("logs/1/*/2.out") if "step 5\n" in path.read_text()]) == 1,
        END_S,
        "rank 2 has begun",
    )

    job.kill_node("local1")
    with pytest.raises(UsageError, match=r"kill_node\(1\): that node does not run; nodes are local0 to"):
        wait_until(lambda: job.kill_node(1), END_S, "the node is gone")

    def members() -> list[str]:
        last = [one for one in snapshot.read(run_dir).rounds if one.has_started][-1]
        return [member.name for member in last.members]

    wait_until(lambda: members() == ["local0", "local2"], END_S, "the others have a round of their own")
    assert job.status().failures == 0
    job.cancel()
    assert job.wait(END_S) is JobState.CANCELLED


def test_a_node_that_is_not_there_cannot_be_killed(run_dir: Path) -> None:
    job = hpc_elastic.submit(functions.place, nodes=1, cluster="local", run_dir=run_dir, scale=1)
    job.wait(END_S)
    wait_until(lambda: not processes_of(run_dir), END_S, "the agent, whose result is read, is gone")

    with pytest.raises(UsageError, match=r"kill_node\(0\): that node does not run; no node runs"):
        job.kill_node(0)


def test_large_results_come_back_and_one_that_cannot_be_written_says_why(run_dir: Path) -> None:
    job = hpc_elastic.submit(functions.return_large, 50_000_000, nodes=1, cluster="local", run_dir=run_dir)
    assert len(job.result(END_S)) == 50_000_000

    other = run_dir.with_name("other")
    job = hpc_elastic.submit(
        functions.return_what_no_disk_takes, nodes=1, cluster="local", run_dir=other, max_restarts=0
    )
    with pytest.raises(SubmissionError, match=r"rank 0: what the function returned has 20\d+ bytes and"):
        job.result(END_S)
