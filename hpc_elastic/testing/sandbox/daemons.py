"""Daemons started one by one, each on record before it exists, and waited for until it answers."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from hpc_elastic.clock import SYSTEM_CLOCK, Clock
from hpc_elastic.errors import SandboxError
from hpc_elastic.testing.sandbox import processes, state
from hpc_elastic.testing.sandbox.configuration import NODE_VARIABLE, SANDBOX_VARIABLE
from hpc_elastic.testing.sandbox.layout import Layout
from hpc_elastic.testing.sandbox.packages import SEARCH_PATH, program
from hpc_elastic.testing.sandbox.ports import PortTaken
from hpc_elastic.testing.sandbox.processes import ProcessId
from hpc_elastic.testing.sandbox.state import DaemonRecord, SandboxState

START_TIMEOUT_S: Final = 120.0
_TAIL_LINES: Final = 6


class Launcher:
    """Starts the daemons of one sandbox and keeps its state on disk ahead of them."""

    def __init__(self, layout: Layout, found: SandboxState, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self.layout = layout
        self.state = found
        self._clock = clock
        self._watched: dict[str, ProcessId] = {}

    def start(
        self, name: str, argv: Sequence[str], *, mark: str = "", extra: Mapping[str, str] | None = None
    ) -> None:
        """Start a daemon in the foreground of a session of its own.

        `mark` is the node its processes belong to; the daemon's own name where there is none.
        """
        self.record(self.state.with_daemon(DaemonRecord(name)))
        with self.layout.output_of(name).open("ab") as output:
            child = subprocess.Popen(
                [program(argv[0]), *argv[1:]],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=self.layout.directory,
                env=self._environment(mark or name) | dict(extra or {}),
                start_new_session=True,
                umask=0o022,
            )
        self._watched[name] = processes.adopt(child)
        self.record(self.state.with_daemon(DaemonRecord(name, self._watched[name])))

    def wait(self, condition: Callable[[], bool], *, what: str, timeout_s: float = START_TIMEOUT_S) -> None:
        """Wait for a condition; raise as soon as a daemon dies, or when time is up."""
        deadline_s = self._clock.monotonic_s() + timeout_s
        while not condition():
            self.refuse_dead()
            if self._clock.monotonic_s() > deadline_s:
                tails = "\n".join(self.last_words(name) for name in self._watched)
                raise SandboxError(
                    f"{what} did not happen within {timeout_s:g} s; the daemons' last lines:\n{tails}"
                )
            self._clock.sleep_s(0.03)

    def refuse_dead(self) -> None:
        """Raise for the first daemon of those started here that is gone."""
        for name, process in self._watched.items():
            if not processes.is_alive(process):
                self._raise_for(name)

    def wait_for_end(self, name: str, *, timeout_s: float) -> None:
        """Wait until a helper program has ended, and take it off the record."""
        process = self._watched.pop(name)
        deadline_s = self._clock.monotonic_s() + timeout_s
        while processes.is_alive(process):
            if self._clock.monotonic_s() > deadline_s:
                raise SandboxError(f"{name} still runs after {timeout_s:g} s:\n{self.last_words(name)}")
            self._clock.sleep_s(0.02)
        self.record(self.state.without_daemon(name))

    def record(self, found: SandboxState) -> None:
        """Make this the state, on disk first."""
        state.write(self.layout, found)
        self.state = found

    def last_words(self, name: str) -> str:
        """The last lines that a daemon printed."""
        try:
            lines = self.layout.output_of(name).read_text(errors="replace").splitlines()
        except OSError:
            return f"{name}: no output"
        return "\n".join(f"{name}: {line}" for line in lines[-_TAIL_LINES:]) or f"{name}: no output"

    def _raise_for(self, name: str) -> None:
        words = self.last_words(name)
        # The words of strerror(EADDRINUSE); the daemons run with LC_ALL=C.
        if "Address already in use" in words:
            raise PortTaken(f"{name} found its port taken:\n{words}")
        raise SandboxError(f"{name} ended while starting:\n{words}")

    def _environment(self, mark: str) -> dict[str, str]:
        return {
            "PATH": SEARCH_PATH,
            "LC_ALL": "C",
            "HOME": "/",
            "SLURM_CONF": str(self.layout.slurm_conf),
            SANDBOX_VARIABLE: str(self.layout.directory),
            NODE_VARIABLE: mark,
        }


def start_munge(launcher: Launcher) -> None:
    """A private munged: its own key, so that no other cluster's credentials mean anything here."""
    folder = launcher.layout.munge
    write_private(folder / "key", os.urandom(128))
    files = [f"--{name}-file={folder / name}" for name in ("key", "pid", "log", "seed")]
    launcher.start(
        "munged",
        # Without --origin it looks its own host name up, which can hang without a name server.
        [
            "munged",
            "--foreground",
            f"--socket={launcher.layout.munge_socket}",
            "--origin=127.0.0.1",
            "--num-threads=10",
            *files,
        ],
    )
    launcher.wait(launcher.layout.munge_socket.exists, what="munged's socket")


def start_slurmctld(launcher: Launcher) -> None:
    """The controller; it does not answer yet when this returns."""
    launcher.start("slurmctld", ["slurmctld", "-D", "-f", str(launcher.layout.slurm_conf)])


def start_slurmd(launcher: Launcher, node: str) -> None:
    """The daemon of one node; it has not registered yet when this returns."""
    argv = ["slurmd", "-D", "-f", str(launcher.layout.slurm_conf), "-N", node]
    launcher.start(f"slurmd-{node}", argv, mark=node)


def write_private(path: Path, content: bytes) -> None:
    """A file that only its owner may read, from its first byte on."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)


def listens(port: int) -> bool:
    """Whether somebody accepts connections on a port of loopback."""
    with socket.socket() as probe:
        probe.settimeout(1.0)
        return probe.connect_ex(("127.0.0.1", port)) == 0
