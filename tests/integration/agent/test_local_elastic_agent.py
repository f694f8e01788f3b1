"""Agents of the Python API with real workers: what comes back, what is restarted, and what is left."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from hpc_elastic.agent import ChildFailedError, LogsSpecs, RunResult, WorkerState, return_values
from hpc_elastic.errors import UsageError
from tests.integration.agent.api_agents import (
    PATIENCE_S,
    begin,
    launch,
    left_of,
    make,
    run_all,
    wait_until_no_worker_is_left,
)
from tests.waiting import wait_until

SLEEP = "import time; print('up', flush=True); time.sleep(600)"


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "meet").mkdir()
    yield tmp_path
    wait_until_no_worker_is_left(tmp_path)


def rank_and_size(factor: int) -> tuple[int, int, str, int]:
    env = os.environ
    return (int(env["RANK"]) * factor, int(env["WORLD_SIZE"]), env["ROLE_NAME"], int(env["ROLE_RANK"]))


def fail_in_turn(failing: list[int]) -> list[int]:
    """Rank `failing[n]` fails in the round after n failures; the others wait to be stopped."""
    count = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    if count < len(failing):
        if int(os.environ["RANK"]) == failing[count]:
            raise ValueError(f"failure {count} of rank {failing[count]}")
        threading.Event().wait(600)
    return [count, int(os.environ["TORCHELASTIC_MAX_RESTARTS"])]


def return_a_lock() -> Any:
    return threading.Lock()


def raise_what_cannot_travel() -> None:
    class Local(Exception):
        def __reduce__(self) -> Any:
            raise TypeError("stays here")

    raise Local("batch 7")


def environment_of(*names: str) -> dict[str, str | None]:
    return {name: os.environ.get(name) for name in names} | {"cpus": str(len(os.sched_getaffinity(0)))}


def wait_for(path: str) -> str:
    while not Path(path).exists():
        threading.Event().wait(0.02)
    return os.environ["WORLD_SIZE"]


def texts(folder: Path, pattern: str) -> str:
    return "".join(path.read_text() for path in sorted(folder.glob(pattern)))


@pytest.mark.parametrize("backend", ["memory", "file"])
def test_values_come_back_by_global_rank_from_unequal_nodes_and_roles(folder: Path, backend: str) -> None:
    nodes: dict[str, Any] = {"nodes": (3, 3), "backend": backend}
    results = run_all(
        make(folder, 0, rank_and_size, 10, slots=2, role="trainer", **nodes),
        make(folder, 1, rank_and_size, 10, slots=1, role="reader", **nodes),
        make(folder, 2, rank_and_size, 10, slots=1, role="trainer", **nodes),
    )

    assert [return_values(result) for result in results] == [
        {0: (0, 4, "trainer", 0), 1: (10, 4, "trainer", 1)},
        {2: (20, 4, "reader", 0)},
        {3: (30, 4, "trainer", 2)},
    ]


def test_the_budget_of_failures_is_that_of_the_run_and_not_of_each_node(folder: Path) -> None:
    agents = [make(folder, rank, fail_in_turn, [0, 1, 2], nodes=(3, 3), max_restarts=2) for rank in range(3)]

    results = run_all(*agents)

    assert [result.state for result in results] == [WorkerState.FAILED] * 3
    assert {next(iter(result.failures)) for result in results} == {2}
    root = results[0].failures[2]
    assert root.message == "ValueError: failure 2 of rank 2"
    assert root.node.startswith("n2-")
    assert [agent.get_worker_group().restart_count for agent in agents] == [2, 2, 2]


def test_failures_within_the_budget_are_survived_and_all_workers_see_the_same_count(folder: Path) -> None:
    results = run_all(
        *(make(folder, rank, fail_in_turn, [1, 0], nodes=(2, 2), max_restarts=2) for rank in range(2))
    )

    assert [return_values(result) for result in results] == [{0: [2, 2]}, {1: [2, 2]}]


def test_a_spare_leaves_with_success_when_the_run_is_done(folder: Path) -> None:
    gate = folder / "go on"
    with ThreadPoolExecutor(3) as threads:
        members = [make(folder, rank, wait_for, str(gate), nodes=(2, 2)) for rank in range(2)]
        running = begin(threads, *members)
        wait_until(
            lambda: all(a.get_worker_group().state == "HEALTHY" for a in members), PATIENCE_S, "they run"
        )
        spare = begin(threads, make(folder, 2, wait_for, str(gate), nodes=(2, 2)))[0]
        gate.touch()

        assert [return_values(one.result(PATIENCE_S)) for one in running] == [{0: "2"}, {1: "2"}]
        assert spare.result(PATIENCE_S) == RunResult(WorkerState.SUCCEEDED)


def test_a_newcomer_is_let_in_and_costs_no_restart(folder: Path) -> None:
    gate = folder / "go on"
    given: dict[str, Any] = {"nodes": (1, 2), "max_restarts": 0, "last_call_s": 0.1}
    with ThreadPoolExecutor(2) as threads:
        first = make(folder, 0, wait_for, str(gate), **given)
        running = begin(threads, first)
        wait_until(lambda: first.get_worker_group().state == "HEALTHY", PATIENCE_S, "it runs")
        running += begin(threads, make(folder, 1, wait_for, str(gate), **given))
        wait_until(lambda: first.get_worker_group().group_world_size == 2, PATIENCE_S, "a world of two")
        gate.touch()

        assert [return_values(one.result(PATIENCE_S)) for one in running] == [{0: "2"}, {1: "2"}]


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_a_death_signal_ends_the_workers_and_is_raised_again(folder: Path, signum: signal.Signals) -> None:
    agent = launch(folder, 0, (1, 1), sys.executable, "-c", SLEEP)
    wait_until(lambda: "up" in texts(folder, "run/logs/1/1/0.out"), PATIENCE_S, "the worker is up")

    agent.send_signal(signum)
    told = json.loads(agent.communicate(timeout=PATIENCE_S)[0])

    assert (told["signal"], told["state"]) == (signum.name, "STOPPED")
    assert left_of(folder) == []


def test_a_peer_that_is_killed_is_missed_before_any_worker_fails(folder: Path) -> None:
    agents = [launch(folder, rank, (1, 2), sys.executable, "-c", SLEEP) for rank in range(2)]
    wait_until(
        lambda: texts(folder, "run/logs/1/*/*.out").count("up") >= 2, PATIENCE_S, "both workers are up"
    )
    before = len(list(folder.glob("run/logs/1/*")))

    agents[1].kill()
    # Liveness is three heartbeats of 2 s.
    wait_until(
        lambda: len(list(folder.glob("run/logs/1/*"))) > before, PATIENCE_S, "the survivor runs a new round"
    )
    newest = max(int(path.name) for path in folder.glob("run/logs/1/*"))
    wait_until(lambda: "up" in texts(folder, f"run/logs/1/{newest}/0.out"), PATIENCE_S, "its worker is up")
    agents[0].terminate()

    assert json.loads(agents[0].communicate(timeout=PATIENCE_S)[0])["signal"] == "SIGTERM"
    agents[1].communicate(timeout=PATIENCE_S)
    assert not (folder / f"run/logs/1/{newest}/1.out").exists()


def test_a_node_that_has_finished_runs_again_when_a_peer_is_killed(folder: Path) -> None:
    """Its peer's part has to be done again, and nobody else is left to do it."""
    script = (
        "import os, time\nprint('world', os.environ['WORLD_SIZE'], flush=True)\n"
        "time.sleep(600 if os.environ['RANK'] == '1' else 0)"
    )
    agents = [launch(folder, rank, (1, 2), sys.executable, "-c", script) for rank in range(2)]
    wait_until(
        lambda: texts(folder, "run/logs/1/*/*.out").count("world 2") >= 2, PATIENCE_S, "a world of two"
    )

    agents[1].kill()
    told = json.loads(agents[0].communicate(timeout=PATIENCE_S)[0])

    assert told["state"] == "SUCCEEDED"
    assert "world 1" in texts(folder, "run/logs/1/*/0.out")
    agents[1].communicate(timeout=PATIENCE_S)


def test_what_cannot_be_pickled_is_refused_before_anything_starts(folder: Path) -> None:
    with pytest.raises(UsageError, match="argument 1 of wait_for"):
        make(folder, 0, wait_for, threading.Lock())


def test_a_value_that_cannot_travel_is_a_failure_that_says_so(folder: Path) -> None:
    (result,) = run_all(make(folder, 0, return_a_lock, max_restarts=0))

    assert result.is_failed()
    assert "the function returned a lock that cannot be pickled" in result.failures[0].message


def test_an_exception_that_cannot_travel_is_told_by_its_text(folder: Path) -> None:
    (result,) = run_all(make(folder, 0, raise_what_cannot_travel, max_restarts=0))

    assert result.failures[0].message.endswith("Local: batch 7")
    assert "raise Local" in result.failures[0].traceback
    assert "raise Local" in str(ChildFailedError("train", result.failures))


def test_each_worker_sees_its_own_device_and_its_share_of_the_cpus(folder: Path) -> None:
    names = ("LOCAL_RANK", "CUDA_VISIBLE_DEVICES", "HPC_ELASTIC_LOCAL_SLOT")
    agent = make(
        folder, 0, environment_of, *names, slots=2, virtual_local_rank=True, numa_options="exclusive"
    )
    agent._environment["CUDA_VISIBLE_DEVICES"] = "5,GPU-abc"

    (result,) = run_all(agent)

    share = str(max(1, len(os.sched_getaffinity(0)) // 2))
    assert [tuple(value.values()) for value in result.return_values.values()] == [
        ("0", "5", "0", share),
        ("0", "GPU-abc", "1", share),
    ]


def test_more_workers_than_devices_are_refused_and_leave_nothing_open(folder: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    agent = make(folder, 0, environment_of, "LOCAL_RANK", slots=2, virtual_local_rank=True)
    agent._environment["CUDA_VISIBLE_DEVICES"] = "5"

    with pytest.raises(UsageError, match="DEVICES=5 shows 1 devices, local rank 1 wants its own"):
        agent.run()

    # Awaited: other threads of this process open and close files of their own.
    wait_until(lambda: len(list(Path("/proc/self/fd").iterdir())) <= before, PATIENCE_S, "nothing is open")


def test_lines_with_a_filter_in_them_also_go_to_the_aggregate_log(folder: Path) -> None:
    script = "import os\nfor n in range(3): print('loss' if n == 1 else 'noise', os.environ['RANK'])"
    (result,) = run_all(
        make(folder, 0, sys.executable, "-c", script, slots=2, duplicate_stdout_filters=["loss"])
    )

    lines = texts(folder, "run/logs/1/1/filtered_stdout.*.log").splitlines()
    assert sorted(line.partition("] ")[2] for line in lines) == ["loss 0", "loss 1"]
    assert Path(result.stdouts[1]).read_text() == "noise 1\nloss 1\nnoise 1\n"
    assert result.return_values == {0: None, 1: None}


def test_lines_of_standard_error_have_filters_of_their_own(folder: Path) -> None:
    script = "import sys\nfor word in ('oops', 'fine'): print(word, file=sys.stderr)"
    run_all(make(folder, 0, sys.executable, "-c", script, duplicate_stderr_filters=["oops"]))

    (line,) = texts(folder, "run/logs/1/1/filtered_stderr.*.log").splitlines()
    assert line.endswith("] oops")
    assert not list(folder.glob("run/logs/1/1/filtered_stdout.*"))


@pytest.mark.parametrize("by_specs", [True, False])
def test_what_is_shown_is_chosen_by_rank_and_stream(
    folder: Path, capfd: pytest.CaptureFixture[str], by_specs: bool
) -> None:
    script = (
        "import os, sys\n"
        "for file in (sys.stdout, sys.stderr): print(file.name, os.environ['RANK'], file=file)"
    )
    chosen: dict[str, Any] = {"redirects": None, "tee": {0: 1, 1: 2}}
    if by_specs:
        specs = LogsSpecs(folder / "run", tee="0:1,1:2")
        chosen = {"redirects": None, "log_dir": None, "logs_specs": specs}
    run_all(make(folder, 0, sys.executable, "-c", script, slots=2, **chosen))

    shown = capfd.readouterr()
    assert [line.partition("] ")[2] for line in shown.out.splitlines()] == ["<stdout> 0"]
    assert [line.partition("] ")[2] for line in shown.err.splitlines()] == ["<stderr> 1"]


def test_events_go_to_the_run_directory_where_they_are_asked_for(folder: Path) -> None:
    run_all(make(folder, 0, rank_and_size, 1, event_log_handler="jsonl"))

    told = [json.loads(line) for line in texts(folder, "run/events/*.jsonl").splitlines()]
    states = [event["metadata"]["state"] for event in told if event["source"] == "WORKER"]
    assert states == ["STARTING", "HEALTHY", "SUCCEEDED"]
    assert told[-1]["metadata"]["state"] == "SUCCEEDED"
