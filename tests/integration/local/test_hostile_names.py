"""Hostile names and arguments on this machine: they reach the workers as they were given."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import hpc_elastic
from hpc_elastic.submission.job import Job
from hpc_elastic.submission.states import JobState
from tests import hostile
from tests.integration.local import functions
from tests.integration.local.processes_of import processes_of
from tests.waiting import wait_until

ROOT = Path(__file__).resolve().parents[3]
END_S = 180.0


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / hostile.DIRECTORY
    made.mkdir()
    (made / f"-s {hostile.DIRECTORY}.py").write_text(hostile.TELLS)
    return made


def shell(folder: Path, *words: str) -> str:
    """What a command prints that is right."""
    done = subprocess.run(
        [sys.executable, "-m", "hpc_elastic", *words],
        cwd=folder,
        # A locale in which Python refuses to print what is no text.
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8:strict"},
        capture_output=True,
        text=True,
        errors="surrogateescape",
        timeout=END_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def are_told(run_dir: Path, ranks: int) -> bool:
    outputs = list(run_dir.glob("logs/*/*/*.out"))
    return [hostile.told(output) for output in outputs] == [hostile.ARGUMENTS] * ranks


def test_run_hands_every_argument_on_as_it_was_given(folder: Path) -> None:
    (script,) = folder.iterdir()

    shell(folder, "run", "--run-dir=-r", "--", script.name, *hostile.ARGUMENTS)

    assert are_told(folder / "-r", 1)
    assert hostile.marks(folder.parent) == []


def test_a_submitted_script_and_every_command_for_its_run_take_any_name(folder: Path) -> None:
    (script,) = folder.iterdir()
    run_dir = folder / f"run {hostile.DIRECTORY} {hostile.TEXTS['no unicode']}"
    name = f"-x $(touch {hostile.MARK}) 'a' #b %j"
    setup = "GIVEN='$(echo not run)'"

    options = ("--cluster", "local", "--nodes", "2", "--name", name, "--setup", setup)
    said = shell(folder, "submit", *options, "--run-dir", str(run_dir), str(script), *hostile.ARGUMENTS)

    assert said.endswith(f"directory {run_dir}\n")
    assert Job.attach(run_dir).wait(END_S) is JobState.COMPLETED
    assert are_told(run_dir, 2)
    for command in ("status", "logs", "report"):
        assert shell(folder, command, str(run_dir)) != ""
        assert shell(folder, command, str(run_dir), "--json") != ""
    assert hostile.marks(folder.parent) == []


def test_a_function_runs_in_a_directory_of_any_name(folder: Path) -> None:
    run_dir = folder / hostile.DIRECTORY

    job = hpc_elastic.submit(functions.place, nodes=1, cluster="local", run_dir=run_dir, scale=1)

    assert job.result(END_S) == {"rank": 0, "world": 1}
    assert hostile.marks(folder.parent) == []
    wait_until(lambda: not processes_of(run_dir), END_S, f"no process of {run_dir} is left")
