"""Whether the kernel's out-of-memory killer ended a worker: by its counter, and by its log where readable."""

from __future__ import annotations

import os
import re
import signal
from typing import Final

from hpc_elastic.agent import cgroups
from hpc_elastic.values import dataclass

_LOG: Final = "/dev/kmsg"
_MOST_RECORDS: Final = 50_000
_RECORD_BYTES: Final = 8192  # the kernel cuts none shorter
_VICTIM: Final = re.compile(rb"^\d+,\d+,(?P<at_us>\d+),[^;]*;.*[Kk]illed process (?P<pid>\d+)")
_CLOCKS_S: Final = 5.0  # the log's clock may run a little beside ours
_KILLED: Final = frozenset({-signal.SIGKILL, 128 + signal.SIGKILL})
_ADVICE: Final = "ask for more (`--mem` or `--mem-per-cpu` of sbatch), or start fewer workers on a node"


@dataclass(frozen=True)
class Kills:
    """What the kernel ended for want of memory: how many in our group, and which it names in its log."""

    count: int
    pids: frozenset[int]
    limit_bytes: int | None


def seen_since(count_before: int | None, since_s: float) -> Kills:
    """The kills since the counter stood at `count_before`, at `since_s` of the monotonic clock."""
    now = cgroups.memory_kills()
    count = 0 if now is None or count_before is None else now - count_before
    return Kills(count, victims(_kernel_log(), since_s), cgroups.memory_limit_bytes())


def explained(message: str, returncode: int, pid: int, kills: Kills) -> str:
    """What is to be said of a worker that ended so: `message`, unless the kernel explains it better."""
    if returncode in _KILLED and (kills.count > 0 or pid in kills.pids):
        return f"killed by the kernel's out-of-memory killer ({_limit(kills)}); {_ADVICE}"
    if kills.count <= 0:
        return message
    # A data loader, say: what its parent says about it is a consequence.
    what = "a process" if kills.count == 1 else f"{kills.count} processes"
    return (
        f"{message}; before it the kernel's out-of-memory killer ended {what} of this node "
        f"({_limit(kills)}); {_ADVICE}"
    )


def victims(records: list[bytes], since_s: float) -> frozenset[int]:
    """The process ids that records of the kernel's log name as killed for want of memory."""
    found = (match for record in records if (match := _VICTIM.match(record)) is not None)
    return frozenset(int(each["pid"]) for each in found if int(each["at_us"]) / 1e6 >= since_s - _CLOCKS_S)


def _limit(kills: Kills) -> str:
    if kills.limit_bytes is None:
        return "no limit, so the memory of the machine itself was used up"
    mebibytes = kills.limit_bytes / (1 << 20)
    return f"limit {mebibytes / 1024:.3g} GiB" if mebibytes >= 1024 else f"limit {mebibytes:.4g} MiB"


def _kernel_log() -> list[bytes]:
    """Its records, oldest first; none where this user may not read it."""
    records: list[bytes] = []
    try:
        fd = os.open(_LOG, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return records
    try:
        while len(records) < _MOST_RECORDS and (record := _next_record(fd)) is not None:
            records.append(record)
    finally:
        os.close(fd)
    return records


def _next_record(fd: int) -> bytes | None:
    try:
        return os.read(fd, _RECORD_BYTES)
    except BrokenPipeError:
        return b""  # overwritten before we came to it; the next read goes on behind it
    except OSError:
        return None  # nothing more
