"""Agents of one run on this machine, ours or torchrun's, with workers that tell when they begin and fail."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, cast

from benchmarks import measured

LOCAL: Final = "127.0.0.1"
PATIENCE_S: Final = 120.0
_MARK: Final = "HPC_ELASTIC_BENCHMARK_MARK"
_LOOK_S: Final = 0.002

# CLOCK_MONOTONIC is one clock for all processes of a machine. A line is far shorter than what one write keeps
# whole. Without imports that a launcher does not need: its time is measured and not that of the program.
WORKER: Final = """
import json, os, pathlib, sys, time

began_s = time.monotonic()
place, rank = pathlib.Path(sys.argv[1]), os.environ["RANK"]
world, pid = int(os.environ["WORLD_SIZE"]), os.getpid()
events = os.open(place / "events", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

def tell(what, at_s):
    line = {"what": what, "at_s": at_s, "rank": int(rank), "world": world, "pid": pid}
    os.write(events, json.dumps(line).encode() + b"\\n")

tell("began", began_s)
order = place / f"fail-{pid}"
while not order.exists():
    time.sleep(0.005)
tell("fails", time.monotonic())
os._exit(1)
"""


@dataclass(frozen=True)
class Told:
    """One line of a worker."""

    what: str
    at_s: float
    rank: int
    world: int
    pid: int


@dataclass(frozen=True)
class Launcher:
    """How the agent of node `index` is started; `command` takes the run, the index and the nodes."""

    name: str
    command: Callable[[Launched, int, str], list[str]]
    environment: Callable[[Launched, int, int], dict[str, str]]


@dataclass
class Launched:
    """The agents of one run. `nodes` is `--nnodes`, `expected` what a job would have been given."""

    launcher: Launcher
    folder: Path
    nodes: str
    expected: int
    per_node: int = 1
    port: int = 0
    agents: dict[int, subprocess.Popen[bytes]] = field(default_factory=dict)
    mark: str = field(default_factory=lambda: os.urandom(8).hex())

    @property
    def script(self) -> Path:
        return self.folder / "worker.py"

    def start(self, index: int) -> None:
        """Start the agent of one node."""
        environment = {
            **os.environ,
            "PYTHONPATH": str(measured.ROOT),
            "OMP_NUM_THREADS": "1",
            _MARK: self.mark,
            **self.launcher.environment(self, index, self.expected),
        }
        with open(self.folder / f"agent-{index}.log", "ab") as log:
            self.agents[index] = subprocess.Popen(
                self.launcher.command(self, index, self.nodes),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                cwd=self.folder,
            )

    def told(self) -> list[Told]:
        """All that workers have told so far."""
        path = self.folder / "events"
        lines = path.read_text().splitlines() if path.exists() else []
        return [Told(**json.loads(line)) for line in lines]

    def wait_for_world(self, size: int, since_s: float, patience_s: float = PATIENCE_S) -> list[Told] | None:
        """What all ranks of a world of this size told that began after `since_s`; None if they did not."""

        def all_there() -> list[Told] | None:
            began = [
                one for one in self.told() if one.what == "began" and one.at_s > since_s and one.world == size
            ]
            newest = {one.rank: one for one in began}
            return list(newest.values()) if len(newest) == size else None

        return cast("list[Told] | None", until(all_there, patience_s))

    def pids(self) -> list[int]:
        """Every living process of this run."""
        wanted = f"{_MARK}={self.mark}".encode()
        return [pid for pid in _all_pids() if wanted in _environment(pid)]

    def family(self, index: int) -> list[int]:
        """The living descendants of one agent."""
        parents = {pid: _parent(pid) for pid in self.pids()}
        found = {self.agents[index].pid}
        while more := {pid for pid, parent in parents.items() if parent in found} - found:
            found |= more
        return sorted(found - {self.agents[index].pid})

    def log(self, index: int) -> str:
        return (self.folder / f"agent-{index}.log").read_text(errors="replace")


@contextmanager
def launched(
    launcher: Launcher, folder: Path, nodes: str, expected: int, per_node: int = 1
) -> Iterator[Launched]:
    """A run without agents yet; when the block is left, nothing of it is."""
    folder.mkdir(parents=True)
    run = Launched(launcher, folder, nodes, expected, per_node, free_port())
    run.script.write_text(WORKER)
    try:
        yield run
    finally:
        for pid in run.pids():
            _kill(pid)
        for agent in run.agents.values():
            agent.kill()
            agent.wait()


def until(found: Callable[[], Any], patience_s: float) -> Any:
    """What `found` gives, once that is not None; None when the time is over."""
    give_up_at_s = time.monotonic() + patience_s
    while (answer := found()) is None and time.monotonic() < give_up_at_s:
        time.sleep(_LOOK_S)
    return answer


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((LOCAL, 0))
        port: int = probe.getsockname()[1]
        return port


def _our_command(run: Launched, _index: int, nodes: str) -> list[str]:
    command = [sys.executable, "-m", "hpc_elastic", "run", "--run-dir", str(run.folder / "run")]
    more = ["--nnodes", nodes, "--nproc-per-node", str(run.per_node), "--max-restarts", "100"]
    # The same failure again and again is what is measured: no pause and no end because of it.
    endless = ["--restart-backoff", "0", "--same-failures", "0", "--node-failures", "0"]
    return [*command, *more, *endless, str(run.script), str(run.folder)]


def _our_environment(run: Launched, index: int, expected: int) -> dict[str, str]:
    return {
        "HPC_ELASTIC_NODE_NAME": f"n{index}",
        "HPC_ELASTIC_NODE_INDEX": str(index),
        "HPC_ELASTIC_NODE_COUNT": str(expected),
        "HPC_ELASTIC_JOB_ID": run.mark,
        "HPC_ELASTIC_ALLOW_LOOPBACK": "1",
    }


def _torchrun_command(run: Launched, index: int, nodes: str) -> list[str]:
    command = [sys.executable, "-m", "torch.distributed.run", "--log-dir", str(run.folder / "logs")]
    # A world below its maximum waits for the last call, 30 s by default; that is not what is measured.
    conf = f"is_host={int(index == 0)},last_call_timeout=1"
    meet = ["--rdzv-backend", "c10d", "--rdzv-endpoint", f"{LOCAL}:{run.port}", "--rdzv-id", run.mark]
    more = ["--rdzv-conf", conf, "--nnodes", nodes, "--nproc-per-node", str(run.per_node)]
    return [*command, *meet, *more, "--max-restarts", "100", str(run.script), str(run.folder)]


def _torchrun_environment(_run: Launched, _index: int, _expected: int) -> dict[str, str]:
    # With the store shared between rounds a newcomer makes two masters in one round, and all wait for ever.
    return {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}


OURS: Final = Launcher("hpc-elastic", _our_command, _our_environment)
TORCHRUN: Final = Launcher("torchrun", _torchrun_command, _torchrun_environment)


def present() -> Sequence[Launcher]:
    """The launchers that this machine has."""
    return (OURS, TORCHRUN) if find_spec("torch") else (OURS,)


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _all_pids() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def _environment(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []  # ended, or not ours


def _parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0
