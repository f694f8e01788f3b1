"""What the control groups around this process allow and have done to it: containers and sites limit it so."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc/self")
_UNLIMITED_BYTES: Final = 1 << 62  # version 1 has no word for it, but the largest number of whole pages


def cpu_quota(proc: Path = _PROC) -> float | None:
    """The smallest limit of this process's groups in CPUs, 1.5 for one and a half; None without a limit.

    `proc` is the folder of the process. What cannot be read limits nothing.
    """
    limits = [
        limit
        for folder, is_unified in _folders("cpu", proc)
        if (limit := _v2(folder) if is_unified else _v1(folder)) is not None
    ]
    return min(limits, default=None)


def memory_limit_bytes(proc: Path = _PROC) -> int | None:
    """The smallest limit of memory of this process's groups; None without a limit."""
    limits = [
        int(text)
        for folder, is_unified in _folders("memory", proc)
        if (text := _read(folder / ("memory.max" if is_unified else "memory.limit_in_bytes"))).isdecimal()
    ]
    return min((limit for limit in limits if limit < _UNLIMITED_BYTES), default=None)


def memory_kills(proc: Path = _PROC) -> int | None:
    """How many processes of this process's group the kernel has ended for want of memory; None if untold."""
    asked = set()
    for folder, is_unified in _folders("memory", proc):
        if is_unified in asked:
            continue  # a group around it, which counts those of others too
        asked.add(is_unified)
        lines = _read(folder / ("memory.events" if is_unified else "memory.oom_control")).splitlines()
        words = dict(line.split(" ", 1) for line in lines if " " in line)
        if words.get("oom_kill", "").isdecimal():
            return int(words["oom_kill"])
    return None


def _folders(controller: str, proc: Path) -> Iterator[tuple[Path, bool]]:
    """The groups that can limit this process, its own and those around them; whether each is of version 2."""
    try:
        groups = (proc / "cgroup").read_text(encoding="utf-8").splitlines()
        mounts = (proc / "mountinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return
    parts = (line.split(":", 2) for line in groups if line.count(":") >= 2)
    paths = {controllers: path for _, controllers, path in parts}
    for line in mounts:
        about, _, filesystem = line.partition(" - ")
        kind, _, options = filesystem.split(" ", 2)
        root, place = about.split(" ")[3:5]
        is_unified = kind == "cgroup2"
        if not is_unified and (kind != "cgroup" or controller not in options.split(",")):
            continue
        own = "" if is_unified else next((name for name in paths if controller in name.split(",")), None)
        if own not in paths:
            continue
        # A container may be shown only what lies below its own group: `root` is that group's place.
        below = os.path.relpath(paths[own], root)
        folder = Path(place) if below.startswith("..") else Path(place, below)
        yield folder, is_unified
        yield from ((each, is_unified) for each in folder.parents if each.is_relative_to(place))


def _v2(folder: Path) -> float | None:
    quota, _, period = _read(folder / "cpu.max").partition(" ")
    return _limit(quota, period)


def _v1(folder: Path) -> float | None:
    return _limit(_read(folder / "cpu.cfs_quota_us"), _read(folder / "cpu.cfs_period_us"))


def _limit(quota: str, period: str) -> float | None:
    """CPUs; `max` and -1 are no limit."""
    if not quota.isdecimal() or not period.isdecimal() or int(period) == 0:
        return None
    return int(quota) / int(period)


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8").strip()
    except OSError:
        return ""
