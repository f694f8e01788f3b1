"""The processes that workers leave behind: how they are found, ended and reaped.

Read from /proc directly: one pass over it costs a millisecond or two, psutil's import alone sixty.
"""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Collection, Iterable
from typing import Final

from hpc_elastic.values import dataclass

MARKER_VARIABLE: Final = "HPC_ELASTIC_WORKER"

_PR_SET_CHILD_SUBREAPER: Final = 36
_PR_GET_CHILD_SUBREAPER: Final = 37
_ENDED_STATES: Final = frozenset("ZX")


@dataclass(frozen=True)
class Process:
    """One process as /proc shows it. Process ids are reused; id and start time together are not."""

    pid: int
    parent: int
    group: int
    session: int
    state: str
    start_ticks: int
    name: str

    @property
    def is_alive(self) -> bool:
        """Whether it still runs or can run: neither a zombie nor dead."""
        return self.state not in _ENDED_STATES


def become_subreaper() -> bool:
    """Let orphans of our workers become our children instead of init's; False where impossible.

    From then on every child of this process that is in another session and was not started as a
    worker counts as such an orphan.
    """
    return _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def is_subreaper() -> bool:
    """Whether this process is given the orphans of its descendants."""
    answer = ctypes.c_int(0)
    return _prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(answer)) and answer.value == 1


def look_at(pid: int) -> Process | None:
    """The process under this id now, or None."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            line = file.read()
    except OSError:
        return None
    # The name is in parentheses and may hold any byte, parentheses and spaces included.
    name_start, name_end = line.index(b"(") + 1, line.rindex(b")")
    rest = line[name_end + 2 :].split()
    return Process(
        pid=pid,
        state=rest[0].decode(),
        parent=int(rest[1]),
        group=int(rest[2]),
        session=int(rest[3]),
        start_ticks=int(rest[19]),
        name=line[name_start:name_end].decode(errors="replace"),
    )


def catches(pid: int, signum: int) -> bool:
    """Whether this process has a handler of its own for the signal, so that it does not end by it."""
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            caught = next(line for line in file if line.startswith(b"SigCgt:"))
    except (OSError, StopIteration):
        return False  # gone
    return bool(int(caught.split()[1], 16) >> (signum - 1) & 1)


def snapshot() -> list[Process]:
    """All processes that can be seen."""
    pids = (int(entry.name) for entry in os.scandir("/proc") if entry.name.isdigit())
    return [seen for pid in pids if (seen := look_at(pid)) is not None]


def left_behind(marker: str, sessions: Collection[int], known: Collection[int]) -> list[Process]:
    """Living processes that came from the workers of `marker`, whose sessions are `sessions`.

    Four ways to know one, each covering what another misses: it is in a worker's session or group;
    it carries the marker in its environment (a daemon that called setsid); it descends from one of
    those (an environment can be overwritten, as by setproctitle); or it became our child when its
    parent ended. `known` are our own children that are not to be touched.
    """
    found = _descended(marker, sessions, known)
    if found and not any(each.is_alive for each in found):
        # The last ones have ended while we looked: what they had begun before that may not be in this list.
        found = _descended(marker, sessions, known)
    return [each for each in found if each.is_alive]


def _descended(marker: str, sessions: Collection[int], known: Collection[int]) -> list[Process]:
    processes = [each for each in snapshot() if each.pid != os.getpid() and each.pid not in known]
    found = {each.pid for each in processes if each.session in sessions or each.group in sessions}
    found |= {each.pid for each in processes if each.pid not in found and _carries(each.pid, marker)}
    found |= {each.pid for each in processes if _is_adopted(each)}
    grew = True
    while grew:
        children = {each.pid for each in processes if each.parent in found} - found
        found |= children
        grew = bool(children)
    return [each for each in processes if each.pid in found]


def send(target: Process, signum: int) -> bool:
    """Signal exactly this process, never a later one under its id; False when it is gone."""
    try:
        pidfd = os.pidfd_open(target.pid)
    except OSError:
        return _send_by_pid(target, signum)  # gone, or a kernel older than 5.3
    try:
        now = look_at(target.pid)
        if now is None or now.start_ticks != target.start_ticks:
            return False
        signal.pidfd_send_signal(pidfd, signum)
    except OSError:
        return False
    finally:
        os.close(pidfd)
    return True


def reap_adopted(known: Collection[int]) -> list[int]:
    """Collect ended orphans that became our children, and say which.

    Never a child we started ourselves: subprocess would take its lost status for success. Those are
    in `known` or, started by other parts of the agent, in the agent's own session; a worker's
    orphans never are, since each worker leads a session of its own.
    """
    if not _has_ended_child():
        return []
    ended = [seen for pid in _children() if pid not in known and (seen := look_at(pid)) is not None]
    return [each.pid for each in ended if not each.is_alive and _is_adopted(each) and _reap(each.pid)]


def describe(processes: Iterable[Process]) -> str:
    """For a message: names, ids and states; of one that is stuck in the kernel also where."""
    return ", ".join(
        f"{each.name} (pid {each.pid}, state {each.state}{_wait_channel(each)})" for each in processes
    )


def _wait_channel(seen: Process) -> str:
    if seen.state != "D":
        return ""
    try:
        with open(f"/proc/{seen.pid}/wchan", encoding="ascii") as file:
            channel = file.read()
    except (OSError, ValueError):
        return ""
    return f" in {channel}" if channel.strip("0") else ""


def _prctl(option: int, argument: object) -> bool:
    try:
        return bool(ctypes.CDLL(None, use_errno=True).prctl(option, argument, 0, 0, 0) == 0)
    except (OSError, AttributeError):  # not Linux, or a C library without it
        return False


def _has_ended_child() -> bool:
    try:
        return os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return False


def _children() -> list[int]:
    try:
        pids: list[int] = []
        for thread in os.scandir("/proc/self/task"):
            with open(f"{thread.path}/children", "rb") as file:
                pids += [int(word) for word in file.read().split()]
        return pids
    except OSError:  # a thread has ended meanwhile, or a kernel without this file
        return [each.pid for each in snapshot() if each.parent == os.getpid()]


def _reap(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return False


def _is_adopted(seen: Process) -> bool:
    # Only a process that asked to be a sub-reaper is given orphans; in any other (a notebook, a test)
    # a child in a foreign session is somebody's own.
    return seen.parent == os.getpid() and seen.session != os.getsid(0) and is_subreaper()


def _carries(pid: int, marker: str) -> bool:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            environment = file.read()
    except OSError:
        return False  # ended, or another user's
    return f"{MARKER_VARIABLE}={marker}".encode() in environment.split(b"\0")


def _send_by_pid(target: Process, signum: int) -> bool:
    now = look_at(target.pid)
    if now is None or now.start_ticks != target.start_ticks:
        return False
    try:
        os.kill(target.pid, signum)
    except OSError:
        return False
    return True
