"""Results that are kept in `docs/measured`, each with the commit, machine and versions it came from."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Mapping
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
DIRECTORY: Final = ROOT / "docs" / "measured"
_PACKAGES: Final = ("torch", "numpy", "submitit", "psutil", "filelock", "python-etcd")


def write(name: str, result: Mapping[str, Any]) -> Path:
    """Put `result` (JSON values) and its origin where `docs/measured` keeps them, and say where."""
    DIRECTORY.mkdir(parents=True, exist_ok=True)
    target = DIRECTORY / f"{name}.json"
    temporary = target.with_suffix(".tmp")
    temporary.write_text(json.dumps({"origin": origin(), **result}, indent=2) + "\n")
    temporary.replace(target)
    return target


def origin() -> dict[str, Any]:
    """What a number needs beside it in order to be compared: when, which code, where, with what."""
    return {
        "measured_at": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "commit": commit(),
        "machine": machine(),
        "versions": versions(),
    }


def commit() -> str:
    """The commit of the working tree, with `+changes` where measured files differ from it; else `unknown`."""
    head = _git("rev-parse", "HEAD")
    if not head:
        return "unknown"
    changed = _git(
        "status", "--porcelain", "--untracked-files=no", "--", "hpc_elastic", "benchmarks", "sbatch"
    )
    return f"{head}+changes" if changed else head


def machine() -> dict[str, Any]:
    """Processor, cores that this process may use, memory, kernel, and how busy it was at the start."""
    return {
        "processor": _field_of("/proc/cpuinfo", "model name") or platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "memory": _field_of("/proc/meminfo", "MemTotal"),
        "kernel": platform.release(),
        "load_1_minute": round(os.getloadavg()[0], 2),
    }


def versions() -> dict[str, str]:
    """The versions of Python, of Slurm, and of the packages that matter, of those that are installed."""
    found = {"python": platform.python_version()}
    if slurm := slurm_version():
        found["slurm"] = slurm
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def slurm_version() -> str:
    """What the controller that is installed calls itself, such as 22.05.8; empty where there is none.

    Other commands of Slurm look for a cluster first.
    """
    return _said("slurmctld", "-V").rpartition(" ")[2]


def _git(*arguments: str) -> str:
    return _said("git", "-C", str(ROOT), *arguments)


def _said(*command: str) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""


def _field_of(path: str, name: str) -> str:
    for line in Path(path).read_text().splitlines():
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.strip()
    return ""
