"""Which CPUs each worker is bound to: equal shares of those that this process may use."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

_CPUS: Final = Path("/sys/devices/system/cpu")


def cpu_shares(workers: int, root: Path = _CPUS) -> list[frozenset[int]]:
    """This process's CPUs in equal shares, one for each worker; what is left over is given to nobody.

    Neighbours stay together: hardware threads of a core, cores of a NUMA node, nodes of a socket. Where
    there are fewer CPUs than workers, several share one. `root` is where the kernel tells the topology.
    """
    return shares(os.sched_getaffinity(0), workers, root)


def shares(cpus: Iterable[int], workers: int, root: Path = _CPUS) -> list[frozenset[int]]:
    """Equal shares of the given CPUs."""
    mine = sorted(cpus, key=lambda cpu: (*_place(root / f"cpu{cpu}"), cpu))
    size = len(mine) // workers
    if size == 0:
        return [frozenset({mine[rank % len(mine)]}) for rank in range(workers)]
    return [frozenset(mine[rank * size : (rank + 1) * size]) for rank in range(workers)]


def _place(cpu: Path) -> tuple[int, int, int]:
    """Socket, NUMA node and core; siblings of a core are often half of all CPU numbers apart."""
    nodes = [each.name.removeprefix("node") for each in cpu.glob("node[0-9]*")]
    node = int(nodes[0]) if nodes and nodes[0].isdecimal() else 0
    return _number(cpu / "topology/physical_package_id"), node, _number(cpu / "topology/core_id")


def _number(file: Path) -> int:
    try:
        return int(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return 0
