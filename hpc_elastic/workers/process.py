"""One worker process: how it is started, looked at and signalled."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import Enum
from pathlib import Path

from hpc_elastic.locking.passing import persist
from hpc_elastic.values import dataclass
from hpc_elastic.workers import bootstrap


class Kind(Enum):
    """What the user's program is."""

    SCRIPT = "--script"
    MODULE = "--module"
    COMMAND = "--command"


@dataclass(frozen=True)
class Program:
    """What every worker runs. `target` is a Python file, a module's name, or an executable."""

    kind: Kind
    target: str
    args: tuple[str, ...] = ()

    def argv(self, python: str = sys.executable) -> list[str]:
        """The command line of a worker of this process: the program under our bootstrap.

        Workers end when the *thread* that started them ends (that is what the kernel's parent-death
        signal is tied to), so start them from a thread that lives as long as the agent.
        """
        return [python, bootstrap.__file__, str(os.getpid()), self.kind.value, self.target, *self.args]


class WorkerProcess:
    """A started worker in a session and process group of its own."""

    def __init__(self, popen: subprocess.Popen[bytes]) -> None:
        self._popen = popen

    @classmethod
    def start(
        cls,
        command: Sequence[str],
        *,
        env: Mapping[str, str],
        stdout_path: Path,
        stderr_path: Path,
        pass_fds: Sequence[int] = (),
        cpus: frozenset[int] | None = None,
    ) -> WorkerProcess:
        """Start `command`, its output appended to the two files (which may be one).

        It may run on `cpus` alone, where they are given. Raises `OSError` when a file cannot be opened or
        the command cannot be run.
        """
        with (
            _appending(stdout_path) as out,
            _appending(stderr_path) as err,
            _notice_signals_blocked(),
            _bound_to(cpus),
        ):
            popen = subprocess.Popen(
                command,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                pass_fds=pass_fds,
                start_new_session=True,
            )
        return cls(popen)

    @property
    def pid(self) -> int:
        """The process id; also the id of its group and session."""
        return self._popen.pid

    def poll(self) -> int | None:
        """The exit status as subprocess gives it (-n for signal n), or None while it runs."""
        return self._popen.poll()

    def signal(self, signum: int) -> bool:
        """Send to the worker's whole group; False when nobody is left in it."""
        # The group's id cannot have been given to others while the worker is unreaped or any member
        # lives; after that a new group of this number would need a wrap of all process ids.
        try:
            os.killpg(self._popen.pid, signum)
        except (ProcessLookupError, PermissionError):
            return False
        return True

    def signal_alone(self, signum: int) -> bool:
        """Send to the worker itself, not to its children; False when it has ended."""
        if self._popen.poll() is not None:
            return False
        try:
            os.kill(self._popen.pid, signum)
        except ProcessLookupError:
            return False
        return True


@contextmanager
def _appending(path: Path) -> Iterator[int]:
    # Append: a second writer of the same file (stdout and stderr in one) loses nothing, and a log
    # that exists, after a requeue, is not cut.
    fd = persist(lambda: os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600))
    try:
        yield fd
    finally:
        os.close(fd)


@contextmanager
def _bound_to(cpus: frozenset[int] | None) -> Iterator[None]:
    # A child begins with the mask of the thread that starts it: so it has no moment without its own, and
    # libraries that count CPUs at their import count right.
    if cpus is None:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@contextmanager
def _notice_signals_blocked() -> Iterator[None]:
    # A mask survives exec, a handler does not: between exec and the bootstrap's first lines a notice
    # signal to the whole step would kill the worker. The bootstrap ignores them, then unblocks.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, bootstrap.NOTICE_SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
