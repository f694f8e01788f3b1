"""Agents of the Python API: failures count for the whole run, and no agent ends the run of the others."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import pytest

from hpc_elastic.agent import LocalElasticAgent, RunResult, WorkerGroup, WorkerState, return_values
from hpc_elastic.rendezvous import RendezvousHandler
from tests.integration.agent.api_agents import (
    PATIENCE_S,
    ROOT,
    launch,
    left_of,
    make,
    run_all,
    wait_until_no_worker_is_left,
)
from tests.integration.agent.test_local_elastic_agent import wait_for
from tests.waiting import wait_until

SLEEP: Final = "import time; print('up', flush=True); time.sleep(600)"
FAIL_ONCE: Final = f"import os, sys; os.environ['TORCHELASTIC_RESTART_COUNT'] == '0' and sys.exit(3); {SLEEP}"
# A function whose file waits in a temporary folder.
HOLDS_A_FILE: Final = """
import pathlib, sys
from tests.integration.agent.api_agents import make
from tests.integration.agent.test_local_elastic_agent import wait_for

make(pathlib.Path(sys.argv[1]), 0, wait_for, "/nowhere").run()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "meet").mkdir()
    yield tmp_path
    wait_until_no_worker_is_left(tmp_path)


def lines(folder: Path, round_number: int | str, rank: int = 0) -> str:
    return "".join(path.read_text() for path in folder.glob(f"run/logs/1/{round_number}/{rank}.out"))


def handlers(folder: Path, backend: str, start: int) -> list[RendezvousHandler]:
    """Those of a world of two nodes in that start of the run."""
    return [
        make(folder, rank, SLEEP, nodes=(2, 2), backend=backend, start=start)
        .get_worker_group()
        .spec.rdzv_handler
        for rank in range(2)
    ]


def failures_before(met: list[RendezvousHandler]) -> set[int | None]:
    """The failures before their next round, by each of them."""
    with ThreadPoolExecutor(2) as threads:
        return {info.failures for info in threads.map(lambda one: one.next_rendezvous(), met)}


@pytest.mark.parametrize("backend", ["memory", "file"])
def test_a_failure_is_counted_once_whoever_tells_of_it_and_for_later_starts_too(
    folder: Path, backend: str
) -> None:
    first, later = handlers(folder, backend, 0), handlers(folder, backend, 1)
    assert failures_before(first) == {0}

    for handler in first:
        handler.note_failure(1, 1, -9, "killed by SIGKILL")
    assert failures_before(first) == {1}
    for handler in first:
        handler.shutdown()

    assert failures_before(later) == {1}
    for handler in later:
        handler.shutdown()


def fail_at_once() -> None:
    raise ValueError(f"with {os.environ['TORCHELASTIC_RESTART_COUNT']} failures before")


def test_the_budget_of_failures_holds_across_a_new_start_of_the_run(folder: Path) -> None:
    first = launch(folder, 0, (1, 1), sys.executable, "-c", FAIL_ONCE)
    wait_until(lambda: "up" in lines(folder, 2), PATIENCE_S, "the worker runs again after its failure")
    first.kill()
    first.communicate(timeout=PATIENCE_S)

    (result,) = run_all(make(folder, 0, fail_at_once, backend="file", start=1, max_restarts=1))

    assert result.state is WorkerState.FAILED
    assert result.failures[0].message == "ValueError: with 1 failures before"
    assert sorted(path.name for path in folder.glob("run/logs/1/*")) == ["1", "2", "3"]


class Broken(LocalElasticAgent):
    """An agent with a fault of its own, which shows once its workers run."""

    def _monitor_workers(self, worker_group: WorkerGroup) -> RunResult:
        raise OSError("no space left on device")


def leaves(folder: Path) -> None:
    """SIGTERM to the agent alone."""
    end_by(folder, signal.SIGTERM)


def crashes(folder: Path) -> None:
    """SIGKILL."""
    end_by(folder, signal.SIGKILL)


def end_by(folder: Path, signum: signal.Signals) -> None:
    other = launch(folder, 1, (1, 2), sys.executable, "-c", SLEEP)
    wait_until(lambda: "up" in lines(folder, "*", 1), PATIENCE_S, "a world of two")
    other.send_signal(signum)
    other.communicate(timeout=PATIENCE_S)


def fails(folder: Path) -> None:
    """An error of the agent itself."""
    agent = make(folder, 1, wait_for, "/nowhere", nodes=(1, 2), backend="file")
    agent.__class__ = Broken
    with pytest.raises(OSError, match="no space left"):
        agent.run()


@pytest.mark.parametrize("way", [leaves, fails, crashes])
def test_an_agent_that_goes_does_not_close_the_run_for_the_others(
    folder: Path, way: Callable[[Path], None]
) -> None:
    done = folder / "done"
    agent = make(folder, 0, wait_for, str(done), nodes=(1, 2), backend="file")
    with ThreadPoolExecutor(1) as threads:
        survivor = threads.submit(agent.run)
        way(folder)
        at = agent.get_worker_group()
        wait_until(
            lambda: (len(at.members), at.state) == (1, WorkerState.HEALTHY),
            PATIENCE_S,
            "the other one goes on alone",
        )
        done.touch()

        assert return_values(survivor.result(PATIENCE_S)) == {0: "1"}


def test_a_killed_agent_leaves_no_temporary_file(folder: Path) -> None:
    scratch = folder / "scratch"
    scratch.mkdir()
    env = {**os.environ, "TMPDIR": str(scratch)}
    words = [sys.executable, "-c", HOLDS_A_FILE, str(folder)]
    agent: subprocess.Popen[Any] = subprocess.Popen(words, cwd=ROOT, env=env, stdin=subprocess.DEVNULL)
    wait_until(lambda: left_of(folder) != [], PATIENCE_S, "the worker runs")
    assert list(scratch.iterdir()) != []

    agent.kill()
    agent.wait(PATIENCE_S)

    wait_until(lambda: not list(scratch.iterdir()), PATIENCE_S, "nothing is left of it")
