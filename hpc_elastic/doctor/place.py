"""The directory where runs are kept: found by trying it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from hpc_elastic.doctor import quota
from hpc_elastic.doctor.finding import Finding, Level
from hpc_elastic.locking import probe
from hpc_elastic.locking.locks import WORKS
from hpc_elastic.locking.report import DirectoryReport

_PATIENCE_S: Final = 5.0
_LITTLE_BYTES: Final = 1 << 30
_FEW_FILES: Final = 10_000
_SLOW_S: Final = 0.25
_LOCAL: Final = frozenset({"tmpfs", "ramfs", "overlay", "ext2", "ext3", "ext4", "xfs", "btrfs", "zfs"})
_CHECK: Final = "run directory"


def look(directory: Path, *, is_shared: bool = False) -> list[Finding]:
    """What `directory`, or the nearest one above it that exists, gives a run.

    `is_shared`: that several nodes see it has been tried, so its kind says no more.
    """
    place = next(each for each in (directory, *directory.parents) if each.is_dir())
    try:
        found = probe.look_closer(probe.examine(place), patience_s=_PATIENCE_S)
        ahead_s = _clock_ahead_s(place)
    except OSError as failed:
        meaning = "a run cannot keep its record here"
        return [
            Finding(
                _CHECK, Level.PROBLEM, f"{place}: {failed.strerror}", meaning, "hpc-elastic run --run-dir ..."
            )
        ]
    return [*judge(found, ahead_s, is_shared=is_shared), *quota.look(place, found.kind)]


def judge(found: DirectoryReport, ahead_s: float, *, is_shared: bool = False) -> Iterator[Finding]:
    """What a report means. Pure."""
    where = f"{found.directory} ({found.kind or 'unknown file system'})"
    if found.refusal:
        remedy = "export HPC_ELASTIC_HOME=... (a directory on a shared POSIX file system)"
        yield Finding(_CHECK, Level.PROBLEM, where, found.refusal, remedy)
        return
    yield Finding(_CHECK, Level.FINE, f"{where}: exclusive create by {found.way}", "can hold a run record")
    if found.kind in _LOCAL and not is_shared:
        yield Finding(
            _CHECK,
            Level.NOTE,
            f"{found.kind} is a local file system",
            "several nodes need a directory that all of them see",
            "hpc-elastic doctor --nodes 2 tells whether they see this one",
        )
    if found.flock != WORKS:
        meaning = "harmless: no decision of a run hangs on a lock"
        yield Finding("locks", Level.NOTE, f"flock: {found.flock}", meaning)
    if found.create_s > _SLOW_S:
        meaning = "nodes meet more slowly than they could; training is not slowed"
        yield Finding("speed", Level.NOTE, f"a durable file takes {found.create_s:.2f} s", meaning)
    if 0 <= found.free_bytes < _LITTLE_BYTES:
        fact = f"{found.free_bytes / 2**20:.0f} MiB are free"
        yield Finding(
            "space", Level.PROBLEM, fact, "checkpoints and logs will not fit", f"df -h {found.directory}"
        )
    if 0 <= found.free_files < _FEW_FILES:
        fact = f"{found.free_files} more files fit"
        yield Finding(
            "space", Level.PROBLEM, fact, "a run makes some ten files a round", f"df -i {found.directory}"
        )
    if abs(ahead_s) > 2.0:
        side = "ahead of" if ahead_s > 0 else "behind"
        fact = f"the file server's clock is {abs(ahead_s):.0f} s {side} this one"
        yield Finding("clock", Level.NOTE, fact, "harmless: clocks of two machines are never compared")


def _clock_ahead_s(place: Path) -> float:
    trial = place / f".clock-{os.getpid():x}-{os.urandom(6).hex()}"
    trial.touch()
    try:
        return trial.stat().st_mtime - time.time()  # noqa: TID251 - for people; nothing hangs on it
    finally:
        trial.unlink()
