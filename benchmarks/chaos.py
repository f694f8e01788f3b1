"""Many members of a run, killed and stopped at random for two minutes: does its record keep its promises?

    python -m benchmarks.chaos [--nodes 32] [--seconds 120] [--seed 1] [--write]

Over a directory, and over etcd v3 where it is installed. A third of the members at most is down at any time,
killed or stopped for up to three liveness times. Ends with status 1 when the record has broken a promise, or
when the members do not agree within the bound once the faults stop.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from benchmarks import measured
from hpc_elastic.settings import LIVENESS_HEARTBEATS
from hpc_elastic.testing.etcd_member import program
from hpc_elastic.testing.etcd_server import EtcdServer
from tests.integration.rendezvous.chaos import Chaos
from tests.integration.rendezvous.nursery import Plan

HEARTBEAT_S: Final = 1.0
_PATIENCE_S: Final = 180.0


@dataclass(frozen=True)
class Outcome:
    """`agreed_after_s`: from the last fault until all members were in one started round."""

    backend: str
    nodes: int
    seconds: float
    killed: int
    stopped: int
    started_rounds: int
    agreed_after_s: float
    violations: tuple[str, ...]


def survive(folder: Path, nodes: int, seconds: float, seed: int, etcd: str = "") -> Outcome:
    """Start the members, let faults happen, and read the record after the run is done."""
    plan = Plan(folder, nodes, min_nodes=max(2, nodes // 3), heartbeat_s=HEARTBEAT_S, etcd=etcd)
    chaos = Chaos(plan, random.Random(seed))
    try:
        for place in range(nodes):
            chaos.start(place)
        chaos.settle(_PATIENCE_S)
        chaos.rage(seconds)
        agreed_after_s = chaos.settle(_PATIENCE_S)
        chaos.finish(_PATIENCE_S)
        violations = tuple(chaos.violations())
    finally:
        chaos.end()
    return Outcome(
        "etcd-v3" if etcd else "file",
        nodes,
        seconds,
        chaos.done["killed"],
        chaos.done["stopped"],
        len(chaos.started_rounds()),
        round(agreed_after_s, 2),
        violations,
    )


def agreement_goal_s(nodes: int) -> float:
    """A member may have to be missed, a dead proposer to be stood in for, and others to be waited for."""
    return 2 * LIVENESS_HEARTBEATS * HEARTBEAT_S + nodes * HEARTBEAT_S + 5.0


def missed_goals(outcomes: Sequence[Outcome]) -> list[str]:
    """One sentence for each broken promise."""
    missed = [f"{one.backend}: {what}" for one in outcomes for what in one.violations]
    return missed + [
        f"{one.backend}: agreed only {one.agreed_after_s:.1f} s after the last fault"
        for one in outcomes
        if one.agreed_after_s > agreement_goal_s(one.nodes)
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--nodes", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--write", action="store_true", help="keep the result in docs/measured/chaos.json")
    options = parser.parse_args()

    outcomes = []
    with tempfile.TemporaryDirectory(prefix="chaos-") as scratch:
        given = (options.nodes, options.seconds, options.seed)
        outcomes.append(survive(Path(scratch) / "file", *given))
        print(outcomes[-1], flush=True)
        if program():
            server = EtcdServer.start(Path(scratch) / "server")
            try:
                outcomes.append(survive(Path(scratch) / "etcd", *given, server.endpoint))
            finally:
                server.stop()
            print(outcomes[-1], flush=True)
    missed = missed_goals(outcomes)
    for sentence in missed:
        print(f"goal missed: {sentence}")
    if options.write:
        result = {
            "what": "members of one run, killed and stopped at random; what its record says afterwards",
            "goals": {"violations": 0, "agreed_after_s": agreement_goal_s(options.nodes)},
            "missed": missed,
            "outcomes": [asdict(one) for one in outcomes],
        }
        print(f"written to {measured.write('chaos', result)}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
