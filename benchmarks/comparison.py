"""What the gatherings say beside each other: ratios of times, how operations grow, which goals are missed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log
from statistics import correlation, linear_regression, median
from typing import Any, Final

from benchmarks.gathering import Gathering
from benchmarks.idle import Idle

Results = dict[str, dict[int, list[Gathering]]]

RIVAL: Final = "torchrun c10d"
FILE: Final = "file"
ETCD: Final = "etcd-v3"
SMALL_NODES: Final = 32
GOALS: Final[Mapping[str, float]] = {
    "file_to_c10d_up_to_32": 1 / 20,
    "file_to_c10d_beyond": 1 / 10,
    "etcd_to_c10d": 1 / 5,
    "operations_r_squared": 0.98,
    "operations_per_node_growth": 1.5,
    "operations_exponent": 1.15,
    "idle_calls_per_s": 2.0,
    "notice_s": 2.0,
}


def shown(name: str, nodes: int, one: Gathering) -> str:
    """One gathering as a line."""
    if one.failed:
        return f"{name:18} {nodes:4}  failed after {one.seconds:.1f} s: {one.failed}"
    return f"{name:18} {nodes:4}  {one.seconds:8.3f} s  {one.cpu_s:7.3f} s cpu  {one.operations:6} operations"


def ratios(results: Results) -> dict[str, Any]:
    """Ours in theirs by size, from pairs that were measured one after the other; and how operations grow."""
    mine = [name for name in (FILE, ETCD) if name in results]
    theirs = [name for name in results if name not in mine]
    pairs = {
        f"{one} to {other}": time_ratios(results[one], results[other]) for one in mine for other in theirs
    }
    return {"time_ratios": pairs, "operations": {name: fit(results[name]) for name in mine}}


def time_ratios(
    mine: Mapping[int, Sequence[Gathering]], other: Mapping[int, Sequence[Gathering]]
) -> dict[int, float]:
    """The median over the pairs of each size in which both have met."""
    found = {}
    for nodes, ours in mine.items():
        pairs = [
            one.seconds / two.seconds
            for one, two in zip(ours, other.get(nodes, ()), strict=False)
            if not one.failed and not two.failed
        ]
        if pairs:
            found[nodes] = round(median(pairs), 4)
    return found


def fit(sizes: Mapping[int, Sequence[Gathering]]) -> dict[str, float]:
    """A line through the medians: operations = constant + per_node * N, and how much they grow.

    Both from 8 nodes on, below which what is done once by one counts most: `growth` is how much more a
    node needs at the largest size than at the smallest, `exponent` is e of the fit operations ~ N^e.
    """
    points = [(nodes, median(one.operations for one in found)) for nodes, found in sorted(sizes.items())]
    per_node = {nodes: operations / nodes for nodes, operations in points if nodes >= 8}
    growth = per_node[max(per_node)] / per_node[min(per_node)] if per_node else 1.0
    exponent = _exponent({nodes: operations for nodes, operations in points if nodes >= 8})
    if len(points) < 3:
        return {
            "constant": 0.0,
            "per_node": points[-1][1] / points[-1][0],
            "r_squared": 1.0,
            "growth": round(growth, 3),
            "exponent": exponent,
        }
    sizes_seen, operations = [float(nodes) for nodes, _ in points], [float(count) for _, count in points]
    line = linear_regression(sizes_seen, operations)
    return {
        "constant": round(line.intercept, 1),
        "per_node": round(line.slope, 2),
        "r_squared": round(correlation(sizes_seen, operations) ** 2, 5),
        "growth": round(growth, 3),
        "exponent": exponent,
    }


def _exponent(operations: Mapping[int, float]) -> float:
    if len(operations) < 2:
        return 1.0
    return round(linear_regression(list(map(log, operations)), list(map(log, operations.values()))).slope, 3)


def missed_goals(results: Results, idle: Idle | None) -> list[str]:
    """One sentence for each goal that is missed."""
    missed = []
    for name in (FILE, ETCD):
        if name in results:
            missed += _failures(name, results[name])
            missed += _growth(name, fit(results[name]))
        if name in results and RIVAL in results:
            missed += _slowness(name, time_ratios(results[name], results[RIVAL]))
    return missed + (_idleness(idle) if idle is not None else [])


def _failures(name: str, sizes: Mapping[int, Sequence[Gathering]]) -> list[str]:
    return [
        f"{name} with {nodes} nodes: {one.failed}"
        for nodes, found in sizes.items()
        for one in found
        if one.failed
    ]


def _slowness(name: str, found: Mapping[int, float]) -> list[str]:
    missed = []
    for nodes, ratio in found.items():
        goal = GOALS["etcd_to_c10d"]
        if name == FILE:
            goal = GOALS["file_to_c10d_up_to_32" if nodes <= SMALL_NODES else "file_to_c10d_beyond"]
        if ratio > goal:
            missed.append(
                f"{name} with {nodes} nodes takes {ratio:.3f} of the time of {RIVAL}, goal {goal:g}"
            )
    return missed


def _growth(name: str, line: Mapping[str, float]) -> list[str]:
    missed = []
    if line["r_squared"] < GOALS["operations_r_squared"]:
        missed.append(f"operations of {name} are not on a line: R^2 {line['r_squared']:.4f}")
    if line["growth"] > GOALS["operations_per_node_growth"]:
        missed.append(f"a node of {name} needs {line['growth']:.2f} times the operations in a large world")
    if line["exponent"] > GOALS["operations_exponent"]:
        missed.append(f"operations of {name} grow with N^{line['exponent']:.2f}")
    return missed


def _idleness(idle: Idle) -> list[str]:
    missed = []
    if idle.calls_per_s > GOALS["idle_calls_per_s"]:
        goal = GOALS["idle_calls_per_s"]
        missed.append(f"an idle member makes {idle.calls_per_s:.2f} filesystem calls a second, goal {goal:g}")
    if idle.notice_s > GOALS["notice_s"]:
        missed.append(f"a notice needs {idle.notice_s:.2f} s to reach all, goal {GOALS['notice_s']:g} s")
    return missed
