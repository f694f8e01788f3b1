"""A run that somebody started without Slurm: what it says to type when it stopped is what leads on."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.waiting import wait_until

PATIENCE_S: Final = 180.0
_SCRIPT: Final = """
import time
from hpc_elastic import worker

ctx = worker.context()
saved = ctx.checkpoint_dir / "next-step"
if saved.exists():
    print("went on with step", saved.read_text(), flush=True)
else:
    for step in range(100_000):
        print("step", step, flush=True)
        time.sleep(0.01)
        if ctx.should_stop(step):
            saved.write_text(f"{step + 1}")
            ctx.saved(step)
            ctx.leave()
"""


def start(folder: Path, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "hpc_elastic", *words],
        cwd=folder,
        stdout=(folder / "out").open("w"),
        stderr=(folder / "err").open("w"),
        text=True,
        env={name: value for name, value in os.environ.items() if not name.startswith("HPC_ELASTIC")},
    )


def finish(folder: Path, *words: str) -> str:
    ended = start(folder, *words)
    assert ended.wait(PATIENCE_S) == 0, (folder / "err").read_text()
    return (folder / "out").read_text()


@pytest.fixture
def stopped(tmp_path: Path) -> Path:
    """A folder in which a run has saved and left after SIGTERM."""
    (tmp_path / "train.py").write_text(_SCRIPT)
    agent = start(tmp_path, "run", "--standalone", "train.py")
    wait_until(lambda: "step 2" in (tmp_path / "out").read_text(), PATIENCE_S, "a few steps")
    agent.send_signal(signal.SIGTERM)
    assert agent.wait(PATIENCE_S) == 80
    return tmp_path


def test_the_agent_and_status_say_the_words_that_lead_on(stopped: Path) -> None:
    said = re.search(r"to go on, start it again with (--run-dir \S+)", (stopped / "err").read_text())
    assert said is not None
    name = Path(said[1].split()[1]).name

    shown = finish(stopped, "status", name)

    assert f"next: to go on, start it again with {said[1]}" in shown
    assert "squeue" not in shown
    assert "went on with step" in finish(stopped, "run", "--standalone", *shlex.split(said[1]), "train.py")


def test_who_follows_the_output_is_told_why_no_more_comes(stopped: Path) -> None:
    (run_dir,) = (stopped / "hpc_elastic_runs").iterdir()
    reader = start(stopped, "logs", str(run_dir), "-f")
    try:
        wait_until(
            lambda: "waiting for more" in (stopped / "err").read_text(), PATIENCE_S, "a word about the wait"
        )
    finally:
        reader.send_signal(signal.SIGINT)

    assert reader.wait(PATIENCE_S) == 130
    assert (stopped / "err").read_text().count("waiting for more") == 1
    assert "to go on, start it again with this run directory" in (stopped / "err").read_text()
    assert "step 2" in (stopped / "out").read_text()
