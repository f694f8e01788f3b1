"""Whether a directory looks like one that each node has for itself: several nodes cannot meet there."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from hpc_elastic.locking import probe

# A disk's own file system says nothing: the login node may be the one that serves it to the others.
_IN_MEMORY: Final = frozenset({"tmpfs", "ramfs", "overlay"})
_EVERYONES: Final = tuple(map(Path, ("/tmp", "/var/tmp", "/dev/shm")))


def doubt(folder: Path, around: Mapping[str, str]) -> str:
    """A sentence with what to type where `folder` is probably not shared; else nothing.

    Nothing either where several nodes on one machine were allowed, as in a sandbox.
    """
    if around.get("HPC_ELASTIC_ALLOW_LOOPBACK") == "1":
        return ""
    kind, _ = probe.mount_of(folder)
    place = next((each for each in _EVERYONES if folder.is_relative_to(each)), None)
    if kind not in _IN_MEMORY and place is None:
        return ""
    why = f"below {place}" if place is not None else f"on {kind}"
    return (
        f"the run directory {folder} lies {why}, which each node has for itself: then nothing starts, or "
        "nothing is found again: see `hpc-elastic doctor --nodes 2`, or set HPC_ELASTIC_HOME to a shared one"
    )
