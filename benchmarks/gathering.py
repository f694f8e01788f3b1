"""Many light processes that do one thing at the same moment, forked from one interpreter that is ready.

A node of a real cluster brings an interpreter with everything imported. Forking gives N of them on one
machine without paying N imports there, which would be measured instead.
"""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, NoReturn, Protocol

PATIENCE_S: Final = 75.0
_PR_SET_PDEATHSIG: Final = 1
_LEAVING_S: Final = 90.0


class Member(Protocol):
    """What one process does. `join` is what is measured; `operations` are those so far."""

    def join(self) -> tuple[int, int]:
        """Rank and world, once everybody is there."""
        ...

    def operations(self) -> int: ...

    def leave(self) -> None: ...


@dataclass(frozen=True)
class Gathering:
    """What it took: seconds until the last one was there, processor time and operations of all."""

    seconds: float
    cpu_s: float
    operations: int
    failed: str = ""


class Gate:
    """Opens for all processes at once: the end of a pipe that nobody has written to."""

    def __init__(self) -> None:
        self._read_fd, self._write_fd = os.pipe()

    def wait(self) -> None:
        """In a child: until it is opened."""
        os.close(self._write_fd)
        os.read(self._read_fd, 1)

    def open(self) -> None:
        os.close(self._write_fd)


class Lines:
    """Lines of JSON from many processes to one; each is shorter than what a pipe takes at once."""

    def __init__(self) -> None:
        self._read_fd, self._write_fd = os.pipe()
        self._rest = b""

    def say(self, **values: Any) -> None:
        os.write(self._write_fd, json.dumps(values).encode()[: select.PIPE_BUF - 1] + b"\n")

    def hear(self, count: int, until_s: float) -> Iterator[dict[str, Any]]:
        """That many lines, or fewer when the time is over."""
        while count:
            line, newline, rest = self._rest.partition(b"\n")
            if newline:
                self._rest, count = rest, count - 1
                yield json.loads(line)
                continue
            left_s = until_s - time.monotonic()
            if left_s <= 0 or not select.select([self._read_fd], [], [], left_s)[0]:
                return
            self._rest += os.read(self._read_fd, 1 << 16)


class Crowd:
    """`count` children, each the `Member` that `make` gives for its number. Gates pass one after another."""

    def __init__(self, count: int, make: Callable[[int], Member]) -> None:
        self.count = count
        self.pids: list[int] = []
        self._lines = Lines()
        self._gates = [Gate() for _ in range(3)]
        gc.collect()
        gc.freeze()  # else each child's first collection copies every page of what was imported here
        for number in range(count):
            pid = os.fork()
            if pid == 0:
                self._live(number, make)
            self.pids.append(pid)

    def gather(self, patience_s: float = PATIENCE_S) -> Gathering:
        """Let all join at once; they stay until `dismiss`."""
        ready = self._hear("ready", time.monotonic() + patience_s)
        if len(ready) < self.count:
            return Gathering(0.0, 0.0, 0, self._excuse("were ready", ready))
        began_s = time.monotonic()
        self._gates[0].open()
        joined = self._hear("joined", began_s + patience_s)
        ranks = sorted(one["rank"] for one in joined if one.get("world") == self.count)
        if ranks != list(range(self.count)):
            return Gathering(time.monotonic() - began_s, 0.0, 0, self._excuse("have met", joined))
        self._gates[1].open()
        spent = self._hear("spent", time.monotonic() + patience_s)
        return Gathering(
            seconds=max(one["at_s"] for one in joined) - began_s,
            cpu_s=sum(one["cpu_s"] for one in spent),
            operations=sum(one["operations"] for one in spent),
        )

    def dismiss(self) -> None:
        """Let all leave; who does not within a time is killed."""
        self._gates[2].open()
        until_s = time.monotonic() + _LEAVING_S
        left = set(self.pids)
        while left and time.monotonic() < until_s:
            left -= {pid for pid in left if os.waitpid(pid, os.WNOHANG)[0]}
            time.sleep(0.005)
        self._kill(left)

    def _kill(self, left: set[int]) -> None:
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        for pid in left:
            os.waitpid(pid, 0)

    def _hear(self, kind: str, until_s: float) -> list[dict[str, Any]]:
        """One line of each; the first complaint ends it."""
        found = []
        for line in self._lines.hear(self.count, until_s):
            found.append(line)
            if line["kind"] != kind:
                break
        return found

    def _excuse(self, what: str, lines: list[dict[str, Any]]) -> str:
        errors = [line["error"] for line in lines if "error" in line]
        there = len([line for line in lines if "error" not in line])
        return f"{there} of {self.count} {what}" + (f"; {errors[0]}" if errors else "")

    def _live(self, number: int, make: Callable[[int], Member]) -> NoReturn:
        try:
            os.setpgid(0, 0)  # an interrupt is for the parent, which ends the others
            _die_with_parent()
            self._take_part(make(number))
        except Exception as failed:  # noqa: BLE001 - told to the parent, which gives it as the reason
            lines = traceback.format_exception_only(failed)
            self._lines.say(kind="failed", error=lines[-1].strip()[:500])
            os._exit(1)
        os._exit(0)

    def _take_part(self, member: Member) -> None:
        self._lines.say(kind="ready")
        self._gates[0].wait()
        began_s = time.process_time()
        rank, world = member.join()
        self._lines.say(kind="joined", rank=rank, world=world, at_s=time.monotonic())
        self._gates[1].wait()
        cpu_s = time.process_time() - began_s
        self._lines.say(kind="spent", cpu_s=cpu_s, operations=member.operations())
        self._gates[2].wait()
        member.leave()


@contextmanager
def crowd(count: int, make: Callable[[int], Member]) -> Iterator[Crowd]:
    """A crowd that is gone when the block is left."""
    there = Crowd(count, make)
    try:
        yield there
    finally:
        there.dismiss()


def _die_with_parent() -> None:
    import ctypes

    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)


def counted(kind: type, names: tuple[str, ...]) -> Callable[[], int]:
    """Count the calls of these methods of `kind` in this process; how many there were so far."""
    calls = [0]

    def counting(method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            calls[0] += 1
            return method(*arguments, **named)

        return call

    for name in names:
        setattr(kind, name, counting(getattr(kind, name)))
    return lambda: calls[0]
