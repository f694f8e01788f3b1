"""Agents as real processes over one directory: simulated nodes, quick settings, nothing left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.waiting import wait_until

_ROOT: Final = Path(__file__).resolve().parents[3]
_MARK: Final = "HPC_ELASTIC_TEST_MARK"
# Quick where nothing depends on the machine, and patient with it elsewhere: nobody is missed who stands still
# for a moment, all that are started together are in the first round, and a save has the time that it takes.
QUICK: Final = ("--rdzv-conf", "heartbeat=2,last_call=60,join_window=0.1", "--shutdown-timeout", "60")
PATIENCE_S: Final = 90.0

# Counts steps; on a notice it stops at the agreed step, saves, and leaves. Resumes from its save.
STEPPER: Final = """
import pathlib, sys, time
from hpc_elastic import worker

ctx = worker.context()
saved = pathlib.Path(ctx.checkpoint_dir) / f"{ctx.rank}.step"
first = int(saved.read_text()) + 1 if saved.exists() else 0
last = int(sys.argv[1]) if len(sys.argv) > 1 else 10**9
print(f"world {ctx.world_size} round {ctx.round}", flush=True)
for step in range(first, last):
    print(f"step {step}", flush=True)
    time.sleep(0.01)
    ctx.progress(step)
    if ctx.should_stop(step):
        saved.write_text(str(step))
        ctx.saved(step)
        print(f"saved {step}", flush=True)
        ctx.leave()
print("done", flush=True)
"""

# Has no context: it ends on TERM, with the status that it is given.
PLAIN: Final = """
import os, signal, sys, time

def end(signum, frame):
    print("notice file there:", os.path.exists(os.environ["HPC_ELASTIC_NOTICE_FILE"]), flush=True)
    sys.exit(int(sys.argv[1]))

signal.signal(signal.SIGTERM, end)
print("started", flush=True)
while True:
    time.sleep(0.05)
"""


@dataclass
class Agents:
    """The agents of one run, on simulated nodes."""

    folder: Path
    job_id: str = "7"
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    mark: str = field(default_factory=lambda: os.urandom(8).hex())

    @property
    def run_dir(self) -> Path:
        return self.folder / "run"

    def script(self, text: str) -> Path:
        """The file with this text, to be run by workers."""
        path = self.folder / "worker.py"
        path.write_text(text)
        return path

    def start(
        self,
        index: int,
        *words: str | Path,
        nodes: str = "1",
        count: int = 1,
        restart: int = 0,
        environment: Mapping[str, str] | None = None,
        ignored: Sequence[signal.Signals] = (),
        console: int | None = None,
        inside: Sequence[str] = (),
    ) -> str:
        """Start the agent of node n<index>, and give its name.

        `ignored` signals are ignored from before its start; `console` takes the place of its file,
        `inside` stands before the command.
        """
        name = f"n{index}"
        env = {**self._seat(index, count, restart), **(environment or {})}
        options = ("--nnodes", nodes, "--run-dir", str(self.run_dir), *QUICK)
        command = [*inside, sys.executable, "-m", "hpc_elastic", "run", *options, *map(str, words)]

        def ignore() -> None:
            for signum in ignored:
                signal.signal(signum, signal.SIG_IGN)

        with open(self.folder / f"{name}.console", "ab") as file:
            shown = file if console is None else console
            self.processes[name] = subprocess.Popen(
                command,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=shown,
                stderr=shown,
                cwd=self.folder,
                preexec_fn=ignore,  # noqa: PLW1509 (this process has no other thread that could hold a lock)
            )
        return name

    def _seat(self, index: int, count: int, restart: int) -> dict[str, str]:
        """The environment that tells an agent which simulated node of which start it is."""
        return {
            **os.environ,
            "PYTHONPATH": str(_ROOT),
            "HPC_ELASTIC_NODE_NAME": f"n{index}",
            "HPC_ELASTIC_NODE_INDEX": str(index),
            "HPC_ELASTIC_NODE_COUNT": str(count),
            "HPC_ELASTIC_JOB_ID": self.job_id,
            "HPC_ELASTIC_RESTART_COUNT": str(restart),
            "HPC_ELASTIC_ALLOW_LOOPBACK": "1",
            _MARK: self.mark,
        }

    def status(self, name: str) -> int:
        """How the agent ended, once it has."""
        process = self.processes[name]
        self._wait(lambda: process.poll() is not None, f"{name} ends")
        return process.returncode

    def statuses(self) -> dict[str, int]:
        """How all agents ended, once they have."""
        return {name: self.status(name) for name in self.processes}

    def signal(self, name: str, signum: signal.Signals) -> None:
        self.processes[name].send_signal(signum)

    def console(self, name: str) -> str:
        """What the agent and its workers have shown so far."""
        return (self.folder / f"{name}.console").read_text(errors="replace")

    def output(self, rank: int, round_number: int, attempt: int = 1) -> list[str]:
        """The lines of a rank's standard output; empty while there are none."""
        path = self.run_dir / "logs" / str(attempt) / str(round_number) / f"{rank}.out"
        return path.read_text().splitlines() if path.exists() else []

    def wait_for_line(self, text: str, rank: int, round_number: int, attempt: int = 1) -> None:
        """Until a rank has printed this line."""

        def printed() -> bool:
            return text in self.output(rank, round_number, attempt)

        self._wait(printed, f"rank {rank} prints {text!r} in round {round_number}")

    def wait_for_world(self, size: int) -> None:
        """Until every rank of the newest round has its context, in a world of this size."""

        def stands() -> bool:
            # In a pool the members of one round keep their logs under attempts of their own.
            newest = max((int(path.name) for path in self.run_dir.glob("logs/*/*")), default=0)
            outputs = list(self.run_dir.glob(f"logs/*/{newest}/*.out"))
            starts = [path.read_text().partition(" round ")[0] for path in outputs]
            return starts == [f"world {size}"] * size

        self._wait(stands, f"a world of {size}")

    def wait_until_nothing_is_left(self) -> None:
        """Until no process of this run lives any more."""
        self._wait(lambda: not self.left_behind(), "no process is left")

    def _wait(self, condition: Callable[[], bool], what: str) -> None:
        """Until the condition holds; where it does not, with what lives and what all agents have shown."""
        try:
            wait_until(condition, PATIENCE_S, what)
        except AssertionError as late:
            left = [f"{pid}: {_command(pid)}" for pid in self.left_behind()]
            consoles = [f"console of {name}:\n{self.console(name)}" for name in self.processes]
            raise AssertionError("\n".join([str(late), *left, *consoles])) from None

    def left_behind(self) -> list[int]:
        """Living processes of this run, agents included."""
        wanted = f"{_MARK}={self.mark}".encode()
        return [pid for pid in _pids() if wanted in _environment(pid)]


@contextmanager
def agents_in(folder: Path) -> Iterator[Agents]:
    """Agents that must all have ended, with all that they started, when the block is left."""
    agents = Agents(folder)
    try:
        yield agents
        agents.wait_until_nothing_is_left()
    finally:
        for pid in agents.left_behind():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for process in agents.processes.values():
            process.wait()


def _pids() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def _command(pid: int) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return "ended meanwhile"
    return b" ".join(words).decode(errors="replace")[:200]


def _environment(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []  # ended, or not ours
