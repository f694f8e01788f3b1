"""What the README and the quickstart show is what runs: their training scripts, whole and interrupted."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hpc_elastic.exit_codes import ExitCode
from hpc_elastic.status import snapshot
from hpc_elastic.testing.sandbox import Sandbox
from tests.examples.pages import training_script, typed
from tests.integration.slurm.sandbox_traces import assert_nothing_left
from tests.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]
STEPS = 60
PATIENCE_S = 240.0
TRAIN_ONE_STEP = """
import time

def train_one_step(step):
    print("step", step, flush=True)
    while step == 10 and ctx.attempt == 1 and ctx.notice() is None:
        time.sleep(0.02)  # it is not over before somebody interrupts it
    if step >= 10 and ctx.attempt == 1:
        time.sleep(0.5)  # nor before the ranks have agreed where to stop

def write_state(folder):
    (folder / "state").touch()

"""


@pytest.fixture(params=["README.md", "docs/quickstart.md"])
def script(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """The script of a page, shorter, and with a step that can be seen."""
    path = tmp_path / "train.py"
    path.write_text(training_script(TRAIN_ONE_STEP, STEPS, request.param))
    return path


@pytest.fixture
def start(script: Path) -> Iterator[Callable[[], subprocess.Popen[bytes]]]:
    """Starts an agent with two workers; what still runs at the end is killed."""
    command = [sys.executable, "-m", "hpc_elastic", "run", "--standalone", "--nproc-per-node", "2"]
    agents: list[subprocess.Popen[bytes]] = []

    def start_agent() -> subprocess.Popen[bytes]:
        agents.append(
            subprocess.Popen(
                [*command, "--run-dir", script.parent / "run", script],
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                cwd=script.parent,
            )
        )
        return agents[-1]

    yield start_agent
    for agent in agents:
        agent.kill()
        agent.wait()


def steps_of(script: Path, rank: int) -> list[int]:
    logs = sorted((script.parent / "run" / "logs").glob(f"*/*/{rank}.out"))
    return [int(step) for log in logs for step in re.findall(r"^step (\d+)$", log.read_text(), re.MULTILINE)]


def test_the_script_of_a_page_goes_on_after_a_notice_where_it_stopped(
    script: Path, start: Callable[[], subprocess.Popen[bytes]]
) -> None:
    first = start()
    # A rank that has not begun when the notice comes is ended, and has nothing to save.
    wait_until(lambda: all(5 in steps_of(script, rank) for rank in (0, 1)), PATIENCE_S, "step 5 of both")
    first.send_signal(signal.SIGUSR2)
    first_status = first.wait(timeout=PATIENCE_S)
    second_status = start().wait(timeout=PATIENCE_S)

    assert (first_status, second_status) == (ExitCode.SAVED, ExitCode.DONE)
    assert steps_of(script, 0) == steps_of(script, 1) == list(range(STEPS))
    assert snapshot.read(script.parent / "run").has_succeeded


@pytest.mark.needs_slurm
def test_the_rehearsal_of_the_readme_works_line_by_line() -> None:
    """The two lines that set up are left out: here that has been done."""
    lines = [
        line for line in typed("README.md", "Rehearse on your own machine") if line.startswith("hpc-elastic ")
    ]
    assert len(lines) == 4
    with tempfile.TemporaryDirectory(prefix="sbx-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        sandbox = Sandbox.up(Path(folder) / "slurm")
        try:
            submitted, preempted, listed, down = _rehearse(lines, sandbox)
        finally:
            if sandbox.directory.exists():
                sandbox.down()

    assert submitted == "Submitted batch job 1\n"
    assert preempted == "job 2 takes the nodes of job 1 for 5 s\n"
    assert listed == f"{sandbox.cluster}-1: done\n"
    assert down.startswith("down: ")
    assert_nothing_left(sandbox.layout)


def _rehearse(lines: list[str], sandbox: Sandbox) -> list[str]:
    """What each line prints to a person who has patience, and stands where only root may write."""
    around = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "HPC_ELASTIC_SANDBOX": str(sandbox.directory),
    }
    told = []
    for line in lines:
        _wait_for_the_moment(line, sandbox)
        ended = subprocess.run(
            ["bash", "-c", line.replace("$PWD", str(ROOT))],
            cwd="/usr",
            env={**os.environ, **around},
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert ended.returncode == 0, f"{line}\n{ended.stderr}"
        told.append(ended.stdout)
    return told


def _wait_for_the_moment(line: str, sandbox: Sandbox) -> None:
    """The job trains when it is preempted, and is over when somebody asks how it stands."""
    if "sandbox preempt" in line:
        logs = sandbox.user.home / "hpc_elastic_runs" / f"{sandbox.cluster}-1" / "logs"
        wait_until(
            lambda: any("step 25 " in path.read_text() for path in logs.glob("*/*/0.out")),
            PATIENCE_S,
            "step 25",
        )
    if "hpc-elastic status" in line:
        assert sandbox.wait_for_state(1, "COMPLETED", timeout_s=PATIENCE_S)["Restarts"] == "1"
