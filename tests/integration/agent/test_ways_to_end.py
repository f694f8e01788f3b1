"""Every row of docs/worker-ends.md, as it is documented."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from hpc_elastic.agent import ChildFailedError, WorkerState
from hpc_elastic.workers.failures import ProcessFailure
from tests.integration.agent.agents import Agents, agents_in
from tests.integration.agent.api_agents import make, run_all
from tests.integration.agent.test_local_elastic_agent import raise_what_cannot_travel, return_a_lock

PAGE: Final = Path(__file__).resolve().parents[3] / "docs" / "worker-ends.md"
SCRIPTS: Final = {
    "exit 0": "print('fine')",
    "exit 1": "raise SystemExit(1)",
    "exit 42": "raise SystemExit(42)",
    "exit 83": "raise SystemExit(83)",
    "SIGSEGV": "import ctypes; ctypes.string_at(0)",
    "SIGKILL": "import os; os.kill(os.getpid(), 9)",
    "exception": "raise ValueError('batch 7 is empty')",
    "os._exit": "import os; os._exit(3)",
    "syntax error": "x = = 1",
}
MORE: Final = ("OOM", "exit while another saves", "no progress", "scope expired", "stuck in the kernel")
# Both stop at the same step; rank 0 ends there without having saved, while rank 1 takes its time.
SAVES: Final = """
import pathlib, sys, time
from hpc_elastic import worker

ctx = worker.context()
for step in range(10**9):
    time.sleep(0.01)
    ctx.progress(step)
    if step == 5:
        print("running", flush=True)
    if ctx.should_stop(step):
        if ctx.rank == 0:
            sys.exit(7)
        time.sleep(1.5)
        pathlib.Path(ctx.checkpoint_dir, "saved").write_text("whole")
        ctx.saved(step)
        ctx.leave()
"""
FUNCTIONS: Final = {
    "returns what cannot be pickled": return_a_lock,
    "raises what cannot be pickled": raise_what_cannot_travel,
}
COMMANDS: Final = {
    "interpreter missing": ("--no-python", "no-such-python"),
    "script missing": ("no_such_script.py",),
}


def rows(about: str) -> dict[str, list[str]]:
    """The rows of the table whose first column has this title: first cell to the other cells."""
    lines = iter(PAGE.read_text(encoding="utf-8").splitlines())
    next(line for line in lines if line.startswith(f"| {about} |"))
    next(lines)
    found = {}
    for line in lines:
        if not line.startswith("|"):
            break
        first, *others = (cell.strip() for cell in line.strip("|").split("|"))
        found[first] = others
    return found


@pytest.fixture
def agents(tmp_path: Path) -> Iterator[Agents]:
    with agents_in(tmp_path) as made:
        yield made


def failure_of(folder: Path, name: str, exitcode: str) -> ProcessFailure:
    entrypoint = str(folder / name) if name.endswith(".py") else name
    (result,) = run_all(make(folder, 0, entrypoint, max_restarts=0))
    assert result.is_failed()
    told = result.failures[0]
    assert told.exitcode == int(exitcode)
    assert Path(result.stderrs[0]) == folder / "run" / "logs" / "1" / "1" / "0.err"
    return told


def test_the_page_has_all_the_ways_to_end() -> None:
    assert list(rows("the worker")) == list(SCRIPTS)
    assert list(rows("more than a script")) == list(MORE)
    assert list(rows("the function")) == list(FUNCTIONS)
    assert list(rows("the command")) == list(COMMANDS)


@pytest.mark.parametrize("way", SCRIPTS)
def test_the_command_line_ends_as_documented(agents: Agents, way: str) -> None:
    status, _, _, cause = rows("the worker")[way]

    name = agents.start(0, "--max-restarts", "0", agents.script(SCRIPTS[way]))

    assert agents.status(name) == int(status)
    log = agents.run_dir / "logs" / "1" / "1" / "0.err"
    told = f"rank 0 failed: {cause}"
    if not cause:
        assert "failed" not in agents.console(name)
    else:
        line = next(line for line in agents.console(name).splitlines() if told in line)
        assert line.endswith(f"; its log is {log}")


@pytest.mark.parametrize("way", SCRIPTS)
def test_an_agent_of_the_api_ends_as_documented(tmp_path: Path, way: str) -> None:
    _, _, exitcode, cause = rows("the worker")[way]
    (tmp_path / "train.py").write_text(SCRIPTS[way])
    if not cause:
        (result,) = run_all(make(tmp_path, 0, str(tmp_path / "train.py"), max_restarts=0))
        assert (result.state, result.failures) == (WorkerState.SUCCEEDED, {})
        return

    told = failure_of(tmp_path, "train.py", exitcode)

    assert cause in told.message
    assert f"failed first: {told.message}" in str(ChildFailedError("train.py", {0: told}))


@pytest.mark.parametrize("way", FUNCTIONS)
def test_a_function_ends_as_documented(tmp_path: Path, way: str) -> None:
    exitcode, cause = rows("the function")[way]

    (result,) = run_all(make(tmp_path, 0, FUNCTIONS[way], max_restarts=0))

    assert cause in result.failures[0].message
    assert result.failures[0].exitcode == int(exitcode)


@pytest.mark.parametrize("way", COMMANDS)
def test_what_is_not_there_ends_as_documented(agents: Agents, tmp_path: Path, way: str) -> None:
    status, exitcode, cause = rows("the command")[way]

    name = agents.start(0, *COMMANDS[way])
    told = failure_of(tmp_path / "api", COMMANDS[way][-1], exitcode)

    assert agents.status(name) == int(status)
    assert COMMANDS[way][-1] in agents.console(name)
    assert cause in told.message


def test_an_exit_while_another_saves_leaves_the_save_whole_and_ends_as_documented(agents: Agents) -> None:
    status, exitcode, cause = rows("more than a script")["exit while another saves"]
    name = agents.start(0, "--nproc-per-node", "2", agents.script(SAVES))
    for rank in (0, 1):
        agents.wait_for_line("running", rank, 1)

    agents.signal(name, signal.SIGUSR2)

    assert agents.status(name) == int(status), agents.console(name)
    assert (agents.run_dir / "checkpoints" / "saved").read_text() == "whole"
    assert cause in agents.console(name)
    events = (agents.run_dir / "events" / f"{name}.jsonl").read_text().splitlines()
    ended = [json.loads(line)["metadata"] for line in events if "TERMINATED" in line]
    assert [(each["global_rank"], each["exit_code"]) for each in ended] == [(0, int(exitcode))]
