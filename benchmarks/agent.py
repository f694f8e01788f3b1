"""What an agent costs and how fast it acts, beside torchrun (c10d) in the same run.

    python -m benchmarks.agent [--parts restart,members,crowd,idle] [--repetitions 3] [--write]

restart: from a worker's exit with 1 to its replacement's first line, with 1, 2 and 4 agents, and from SIGTERM
until nothing is left. members: from the start of one more node, and from the loss of one, to the new round.
crowd: from launching eight agents to the first lines of all workers. idle: share of a core, and memory. The
agents are processes on this machine, and the launchers take turns. `--write` keeps what was measured in
docs/measured/agent.json, beside the parts that stand there. Ends with status 1 when a goal is missed.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any, Final

from benchmarks import agent_parts as parts
from benchmarks import measured
from benchmarks.launched import OURS, TORCHRUN, Launcher, present

Result = dict[str, Any]

GOALS: Final[Mapping[str, float]] = {
    "restart_ratio_alone": 1.0,
    "restart_ratio_2_and_4": 0.2,
    "crowd_ratio": 0.2,
    "loss_s": 17.0,  # liveness time and two seconds
    "idle_core_share": 0.003,
    "idle_mib": 45.0,
}
RESTART_NODES: Final = (1, 2, 4)
CROWD_NODES: Final = 8
_BOUND_S: Final = 30.0


def restart(launchers: Sequence[Launcher], folder: Path, repetitions: int) -> Result:
    found: Result = {one.name: {} for one in launchers}
    for nodes in RESTART_NODES:
        for one in launchers:
            place = folder / f"restart-{one.name}-{nodes}"
            measured_now = parts.restarts(one, place, nodes, repetitions)
            found[one.name][str(nodes)] = asdict(measured_now)
    return found


def members(launchers: Sequence[Launcher], folder: Path, _repetitions: int) -> Result:
    found: Result = {
        one.name: asdict(parts.membership(one, folder / f"members-{one.name}", _BOUND_S)) for one in launchers
    }
    stopped = parts.membership(OURS, folder / "members-stopped", _BOUND_S, is_killed=False)
    found[OURS.name]["loss_of_a_stopped_one_s"] = stopped.loss_s
    return found


def crowd(launchers: Sequence[Launcher], folder: Path, repetitions: int) -> Result:
    found: Result = {one.name: [] for one in launchers}
    for repetition in range(repetitions):
        for one in launchers:
            place = folder / f"crowd-{one.name}-{repetition}"
            found[one.name].append(parts.crowd(one, place, CROWD_NODES))
    return found


def idle(launchers: Sequence[Launcher], folder: Path, _repetitions: int, seconds: float = 60.0) -> Result:
    found = parts.idle(launchers, folder / "idle", seconds)
    return {name: [asdict(one) for one in agents] for name, agents in found.items()}


PARTS: Final[Mapping[str, Callable[[Sequence[Launcher], Path, int], Result]]] = {
    "restart": restart,
    "members": members,
    "crowd": crowd,
    "idle": idle,
}


def missed_goals(results: Mapping[str, Result]) -> list[str]:
    """One sentence for each goal that is missed by a part that was measured."""
    checks = {
        "restart": _missed_restarts,
        "members": _missed_loss,
        "crowd": _missed_crowd,
        "idle": missed_idle,
    }
    return [
        sentence for name, check in checks.items() if name in results for sentence in check(results[name])
    ]


def _missed_restarts(found: Result) -> list[str]:
    missed = []
    for nodes, ratio in restart_ratios(found).items():
        goal = GOALS["restart_ratio_alone" if nodes == "1" else "restart_ratio_2_and_4"]
        if ratio > goal:
            missed.append(f"a restart of {nodes} agents takes {ratio:.3f} of torchrun's time, goal {goal:g}")
    return missed


def restart_ratios(found: Result) -> dict[str, float]:
    """Our median time to the replacement's first line in torchrun's, by the number of agents."""
    if TORCHRUN.name not in found:
        return {}
    mine, theirs = found[OURS.name], found[TORCHRUN.name]
    return {n: round(median(mine[n]["own_s"]) / median(theirs[n]["own_s"]), 4) for n in mine}


def _missed_loss(found: Result) -> list[str]:
    times_s = (found[OURS.name]["loss_s"], found[OURS.name]["loss_of_a_stopped_one_s"])
    goal_s = GOALS["loss_s"]
    return [
        f"the new round after the loss of a node began after {loss_s} s, goal {goal_s:g} s"
        for loss_s in times_s
        if loss_s is None or loss_s > goal_s
    ]


def _missed_crowd(found: Result) -> list[str]:
    ratio = crowd_ratio(found)
    if ratio is None or ratio <= GOALS["crowd_ratio"]:
        return []
    return [f"{CROWD_NODES} agents start in {ratio:.3f} of torchrun's time, goal {GOALS['crowd_ratio']:g}"]


def crowd_ratio(found: Result) -> float | None:
    """Our median in torchrun's."""
    if TORCHRUN.name not in found:
        return None
    mine_s, theirs_s = (float(median(found[name])) for name in (OURS.name, TORCHRUN.name))
    return round(mine_s / theirs_s, 4)


def missed_idle(found: Result) -> list[str]:
    share = max(one["core_share"] for one in found[OURS.name])
    mib = max(one["pss_mib"] for one in found[OURS.name])
    missed = []
    if share > GOALS["idle_core_share"]:
        missed.append(f"an idle agent takes {share:.2%} of a core, goal {GOALS['idle_core_share']:.1%}")
    if mib > GOALS["idle_mib"]:
        missed.append(f"an idle agent holds {mib:.1f} MiB, goal {GOALS['idle_mib']:g} MiB")
    return missed


def as_json(results: Mapping[str, Result]) -> Result:
    restarted, crowded = results.get("restart", {}), results.get("crowd", {})
    return {
        "what": "seconds, between processes of one machine; torchrun over c10d, last call 1 s; a change "
        "that is null did not happen within bound_s",
        "goals": GOALS,
        "missed": missed_goals(results),
        "restart_ratios": restart_ratios(restarted),
        "crowd_ratio": crowd_ratio(crowded),
        **results,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--parts", default=",".join(PARTS), help=", ".join(PARTS))
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--write", action="store_true", help="keep the result in docs/measured/agent.json")
    options = parser.parse_args()

    results: dict[str, Result] = {}
    with tempfile.TemporaryDirectory(prefix="agent-") as scratch:
        for name in options.parts.split(","):
            results[name] = PARTS[name](present(), Path(scratch), options.repetitions)
            print(f"{name}: {json.dumps(results[name])}", flush=True)
    found = as_json({**(_kept() if options.write else {}), **results})
    for sentence in (f"restart_ratios: {found['restart_ratios']}", f"crowd_ratio: {found['crowd_ratio']}"):
        print(sentence)
    for sentence in found["missed"]:
        print(f"goal missed: {sentence}")
    if options.write:
        print(f"written to {measured.write('agent', found)}")
    return 1 if found["missed"] else 0


def _kept() -> dict[str, Result]:
    """The parts that were measured before."""
    path = measured.DIRECTORY / "agent.json"
    stored = json.loads(path.read_text()) if path.exists() else {}
    return {name: stored[name] for name in PARTS if name in stored}


if __name__ == "__main__":
    sys.exit(main())
