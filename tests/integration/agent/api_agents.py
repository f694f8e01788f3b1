"""Agents of the Python API on simulated nodes: threads of this process, or processes of their own.

As a program (`python -m tests.integration.agent.api_agents ENDPOINT RANK LEAST MOST PROGRAM ...`) it is one
agent that tells its result as one line of JSON.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from hpc_elastic.agent import LocalElasticAgent, RunResult, SignalException, WorkerSpec
from hpc_elastic.rendezvous import RendezvousParameters, create_handler
from hpc_elastic.workers import tree
from tests.waiting import wait_until

ROOT: Final = Path(__file__).resolve().parents[3]
PATIENCE_S: Final = 120.0
QUICK: Final = {"allow_loopback": True, "heartbeat": 2, "join_window": 0.1}
# Two nodes of one or two are both in the first round, however slowly one of them starts.
LAST_CALL_S: Final = 60.0


def make(
    folder: Path,
    rank: int,
    entrypoint: Callable[..., Any] | str,
    *args: Any,
    nodes: tuple[int, int] = (1, 1),
    backend: str = "memory",
    slots: int = 1,
    start: int = 0,
    last_call_s: float = LAST_CALL_S,
    **given: Any,
) -> LocalElasticAgent:
    """The agent of node n<rank> in that start of the run, all of whose files are below `folder`."""
    params = RendezvousParameters(
        backend,
        str(folder / "meet"),
        "run",
        *nodes,
        node_rank=rank,
        local_world_size=slots,
        config={
            **QUICK,
            "last_call_timeout": last_call_s,
            "node_name": f"n{rank}",
            "restart_count": start,
        },
    )
    fields: dict[str, Any] = {"role": "default", "redirects": "3", "log_dir": folder / "run", **given}
    spec = WorkerSpec(
        local_world_size=slots,
        rdzv_handler=create_handler(params),
        entrypoint=entrypoint,
        args=args,
        **fields,
    )
    return LocalElasticAgent(spec, shutdown_timeout=60.0)


def run_all(*agents: LocalElasticAgent) -> list[RunResult]:
    """The results of agents that run at once, each in a thread."""
    with ThreadPoolExecutor(len(agents)) as threads:
        begun = [threads.submit(agent.run) for agent in agents]
        return [one.result(PATIENCE_S) for one in begun]


def begin(threads: ThreadPoolExecutor, *agents: LocalElasticAgent) -> list[Future[RunResult]]:
    """The agents, running in threads."""
    return [threads.submit(agent.run) for agent in agents]


def launch(
    folder: Path, rank: int, nodes: tuple[int, int], program: str, *args: str
) -> subprocess.Popen[str]:
    """The agent of node n<rank> as a process, over a directory."""
    words = [str(folder), str(rank), *map(str, nodes), program, *args]
    return subprocess.Popen(
        [sys.executable, "-m", "tests.integration.agent.api_agents", *words],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def wait_until_no_worker_is_left(folder: Path) -> None:
    """Until no worker of a run below this folder lives any more; names those that do."""
    seen: list[list[str]] = []

    def none_is_left() -> bool:
        seen[:] = [left_of(folder)]
        return not seen[0]

    try:
        wait_until(none_is_left, PATIENCE_S, "no worker is left")
    except AssertionError as late:
        raise AssertionError(f"{late}; left are {seen[0]}") from None


def left_of(folder: Path) -> list[str]:
    """Living processes whose environment names a run below this folder."""
    wanted = f"HPC_ELASTIC_RUN_DIR={folder / 'run'}".encode()
    return [each.name for each in tree.snapshot() if each.is_alive and wanted in _environment(each.pid)]


def _environment(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


def main(words: list[str]) -> None:
    folder, rank, least, most, program, *args = words
    (Path(folder) / "meet").mkdir(exist_ok=True)
    nodes = (int(least), int(most))
    agent = make(Path(folder), int(rank), program, *args, nodes=nodes, backend="file")
    try:
        result = agent.run()
        told: dict[str, Any] = {"state": result.state.value, "failures": sorted(result.failures)}
    except SignalException as heard:
        told = {"signal": heard.sigval.name, "state": agent.get_worker_group().state.value}
    sys.stdout.write(json.dumps({**told, "pid": os.getpid()}) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
