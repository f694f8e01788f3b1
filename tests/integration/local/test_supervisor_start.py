"""A supervisor that does not come up is an error at once, and does not stay behind."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from hpc_elastic.clock import SYSTEM_CLOCK
from hpc_elastic.errors import SubmissionError
from hpc_elastic.submission import local_control
from hpc_elastic.submission.files import SubmissionFiles
from hpc_elastic.submission.supervisor_files import Plan
from tests.integration.local.processes_of import processes_of
from tests.waiting import wait_until

PLAN = Plan(job_id="local-1", nodes=1, command=(sys.executable,), setup=(), requeue=False)


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SubmissionFiles:
    monkeypatch.chdir(tmp_path)  # `python -m` looks for the package in the current directory first
    found = SubmissionFiles(tmp_path / "run")
    found.folder.mkdir(parents=True)
    return found


def _start_with(package: str, files: SubmissionFiles, *, timeout_s: float = 600.0) -> None:
    """Start where the package that the supervisor imports has this text."""
    folder = files.run_dir.parent / "packages" / "hpc_elastic"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text(package)
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(folder.parent)}
    local_control.start(files, PLAN, environment, SYSTEM_CLOCK, timeout_s=timeout_s)


def test_a_supervisor_that_ends_at_once_is_not_waited_for(files: SubmissionFiles) -> None:
    began_s = SYSTEM_CLOCK.monotonic_s()

    with pytest.raises(SubmissionError, match=r"ended while starting(?s:.*)no such disk"):
        _start_with("raise OSError('no such disk')", files)

    assert SYSTEM_CLOCK.monotonic_s() - began_s < 300


def test_a_supervisor_that_says_nothing_is_ended(files: SubmissionFiles) -> None:
    with pytest.raises(SubmissionError, match="has not started in 1 s"):
        _start_with("import threading; threading.Event().wait()", files, timeout_s=1.0)

    wait_until(lambda: not processes_of(files.run_dir), timeout_s=180, what="the supervisor is gone")
