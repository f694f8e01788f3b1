"""Commands that hang, fail or are not there, as real processes."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from hpc_elastic.slurm.commands import Answer, run
from tests.integration.processes.bench import PATIENCE_S
from tests.waiting import wait_until


def program(folder: Path, text: str) -> str:
    path = folder / "scontrol"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def test_output_complaint_and_status_come_back(tmp_path: Path) -> None:
    command = (program(tmp_path, "echo out; echo err >&2; exit 3"),)

    assert run(command, 60.0) == Answer(command, 3, "out\n", "err\n")


def test_a_command_that_hangs_is_killed_with_the_children_that_hold_its_pipes(tmp_path: Path) -> None:
    note = tmp_path / "child"
    command = (program(tmp_path, f"sleep 600 & echo $! > {note}.new; mv {note}.new {note}; wait"),)
    began_s = time.monotonic()

    for limit_s in (0.5, 2, 8, 32):
        answer = run(command, limit_s)
        if note.exists():  # else it was killed before it came so far
            break

    assert answer.status is None
    assert answer.may_work_later
    assert f"no answer in {limit_s:g} s" in str(answer)
    assert time.monotonic() - began_s < 120.0
    wait_until(lambda: not is_running(int(note.read_text())), PATIENCE_S, "the child is gone")


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def test_a_command_that_is_missing_or_may_not_run_is_an_answer_too(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("no program")

    assert run((str(tmp_path / "absent"),), 1.0).is_missing
    assert run((str(tmp_path / "plain"),), 1.0).status == 126


def test_a_job_that_an_agent_submits_is_not_told_of_the_agents_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    for name in ("SLURM_STEP_ID", "SLURM_STEP_NUM_TASKS"):
        monkeypatch.setenv(name, "2")
    text = 'echo "$SLURM_JOB_ID,${SLURM_STEP_ID-},${SLURM_STEP_NUM_TASKS-}"'

    assert run((program(tmp_path, text),), 60.0).output == "7,,\n"


def test_times_come_in_one_format_whatever_the_user_prefers(tmp_path: Path) -> None:
    command = (program(tmp_path, 'echo "$SLURM_TIME_FORMAT $LC_ALL"'),)

    assert run(command, 60.0).output == "standard C\n"


def test_a_signal_that_the_caller_ignores_does_not_end_the_command(tmp_path: Path) -> None:
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        answer = run((program(tmp_path, "kill -TERM $$; echo survived"),), 60.0)
    finally:
        signal.signal(signal.SIGTERM, before)

    assert answer.output == "survived\n"


def test_bytes_that_are_no_text_do_no_harm() -> None:
    answer = run((sys.executable, "-c", "import os; os.write(1, b'a\\xffb')"), 60.0)

    assert answer.output.startswith("a")
    assert os.fsencode(answer.output)
