"""Processes as /proc shows them: who they are, whose they are, and how to end them for certain."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hpc_elastic.clock import SYSTEM_CLOCK, Clock
from hpc_elastic.errors import SandboxError

_PROC: Final = Path("/proc")
_KILL_TIMEOUT_S: Final = 60.0

# Our own children by pid: someone has to collect them, or they stay as zombies.
_children: dict[int, subprocess.Popen[bytes]] = {}


@dataclass(frozen=True)
class ProcessId:
    """A process that no later one with the same number can be mistaken for."""

    pid: int
    start_time: int
    """In clock ticks since boot, field 22 of /proc/PID/stat."""


@dataclass(frozen=True)
class Seen:
    """One process in a snapshot."""

    id: ProcessId
    parent: int
    name: str


def adopt(child: subprocess.Popen[bytes]) -> ProcessId:
    """Remember a child just started, so that it is collected when it ends."""
    _children[child.pid] = child
    seen = look_at(child.pid)
    return seen.id if seen else ProcessId(child.pid, 0)


def look_at(pid: int) -> Seen | None:
    """The living process with this number, or None; a zombie is not living."""
    try:
        text = (_PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return None
    # The name stands in brackets and may itself hold brackets and blanks: see proc(5).
    name, _, rest = text.partition("(")[2].rpartition(")")
    fields = rest.split()
    if fields[0] in "ZX":
        return None
    return Seen(ProcessId(pid, int(fields[19])), int(fields[1]), name)


def ourselves() -> ProcessId:
    """This process."""
    seen = look_at(os.getpid())
    if seen is None:
        raise SandboxError(
            f"/proc does not show our own process {os.getpid()}; a sandbox needs Linux's /proc"
        )
    return seen.id


def is_alive(process: ProcessId) -> bool:
    """Whether this very process still runs."""
    _collect(process.pid)
    seen = look_at(process.pid)
    return seen is not None and seen.id == process


def everyone() -> tuple[Seen, ...]:
    """All living processes that this user may see."""
    pids = (int(entry.name) for entry in _PROC.iterdir() if entry.name.isdigit())
    return tuple(seen for pid in pids if (seen := look_at(pid)) is not None)


def environment_of(pid: int) -> dict[str, str]:
    """The environment a process was started with; empty when it is gone or not ours to read."""
    try:
        block = (_PROC / str(pid) / "environ").read_bytes()
    except OSError:
        return {}
    pairs = (item.decode(errors="replace").partition("=") for item in block.split(b"\0") if item)
    return {name: value for name, _, value in pairs}


def program_of(pid: int) -> str:
    """Base name of the program file that runs; empty when it is gone."""
    try:
        return (_PROC / str(pid) / "exe").readlink().name
    except OSError:
        return ""


def open_files_of(pid: int) -> frozenset[str]:
    """Where the open files of a process lead."""
    folder = _PROC / str(pid) / "fd"
    found: set[str] = set()
    try:
        for entry in folder.iterdir():
            try:
                found.add(str(entry.readlink()))
            except OSError:
                continue  # closed since it was listed
    except OSError:
        pass  # the process is gone
    return frozenset(found)


def with_descendants(roots: Iterable[Seen], population: Iterable[Seen]) -> set[Seen]:
    """The roots and everything below them; this process and those above it are left out."""
    children: dict[int, list[Seen]] = {}
    parents: dict[int, int] = {}
    for seen in population:
        children.setdefault(seen.parent, []).append(seen)
        parents[seen.id.pid] = seen.parent
    spared = _ourselves_and_above(parents)
    found: set[Seen] = set()
    pending = list(roots)
    while pending:
        seen = pending.pop()
        if seen not in found:
            found.add(seen)
            pending.extend(children.get(seen.id.pid, ()))
    return {seen for seen in found if seen.id.pid not in spared}


def kill_all(find: Callable[[], set[Seen]], *, clock: Clock = SYSTEM_CLOCK) -> int:
    """Kill whatever `find` finds until it finds nothing more; returns how many were killed.

    All are stopped before the first is killed: a process that still runs could start another
    one, and the death of a parent hides whose child a process was. Children are killed first: a
    parent's death may orphan their process group, and the kernel sends SIGHUP and SIGCONT to an
    orphaned group that is stopped. (Seen: an srun on a killed node woke up and ended its step everywhere.)
    """
    deadline_s = clock.monotonic_s() + _KILL_TIMEOUT_S
    killed: set[Seen] = set()
    while victims := _stopped(find):
        for victim in _children_first(victims):
            send(victim.id, signal.SIGKILL)
        killed |= victims
        while any(is_alive(victim.id) for victim in victims):
            if clock.monotonic_s() > deadline_s:
                stuck = ", ".join(f"{seen.name} ({seen.id.pid})" for seen in victims if is_alive(seen.id))
                raise SandboxError(f"still running {_KILL_TIMEOUT_S:g} s after SIGKILL: {stuck}")
            clock.sleep_s(0.005)
    return len(killed)


def send(process: ProcessId, signum: signal.Signals) -> None:
    """Signal this very process; nothing happens when it is gone."""
    try:
        handle = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return
    try:
        # The number may have been given to another process before the handle was opened.
        seen = look_at(process.pid)
        if seen is not None and seen.id == process:
            signal.pidfd_send_signal(handle, signum)
    except ProcessLookupError:
        return
    finally:
        os.close(handle)


def _children_first(victims: set[Seen]) -> list[Seen]:
    by_pid = {seen.id.pid: seen for seen in victims}

    def depth(seen: Seen) -> int:
        above = by_pid.get(seen.parent)
        return 0 if above is None else 1 + depth(above)

    return sorted(victims, key=depth, reverse=True)


def _stopped(find: Callable[[], set[Seen]]) -> set[Seen]:
    stopped: set[Seen] = set()
    while fresh := find() - stopped:
        for seen in fresh:
            send(seen.id, signal.SIGSTOP)
        stopped |= fresh
    return stopped


def _collect(pid: int) -> None:
    child = _children.get(pid)
    if child is not None and child.poll() is not None:
        del _children[pid]


def _ourselves_and_above(parents: dict[int, int]) -> frozenset[int]:
    spared = {0, 1}
    pid = os.getpid()
    while pid > 1 and pid not in spared:
        spared.add(pid)
        pid = parents.get(pid, 1)
    return frozenset(spared)
