"""Half an hour of kills at random: do agents that stay leak anything, and does the run end well all the same?

    python -m benchmarks.soak [--minutes 30] [--nodes 8] [--workers 2] [--seed 1] [--write]

Agents on loopback, with two workers each. Every few seconds a worker is killed, or an agent, which comes back
after a while; two agents are never killed, and their descriptors, threads and memory are counted. In the end
all workers are let to finish. Nothing here depends on a quiet machine. Ends with status 1 when an agent did
not end with 0, a process is left, or one of the two holds more than in the beginning.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Final

from benchmarks import measured
from tests.integration.agent.agents import agents_in
from tests.integration.agent.soak import Soak

GROWTH_MIB: Final = 4.0


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--nodes", type=int, default=8)
    parser.add_argument("--workers", type=int, default=2, help="of each node")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--write", action="store_true", help="keep the result in docs/measured/soak.json")
    options = parser.parse_args()

    began_s = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="soak-") as scratch, agents_in(Path(scratch)) as agents:
        soak = Soak(agents, options.nodes, options.workers, random.Random(options.seed))
        soak.run(60 * options.minutes, _tell)
        statuses, rounds = soak.finish(), soak.rounds
    faults = [f"{name} ended with {status}" for name, status in statuses.items() if status != 0]
    faults += soak.leaks(GROWTH_MIB)
    result = {
        "what": "agents on loopback whose workers, and who themselves, are killed at random; two are never "
        "killed: what they hold before and after, and by how much their memory has grown since it was warm",
        "minutes": round((time.monotonic() - began_s) / 60, 1),
        "nodes": options.nodes,
        "workers_per_node": options.workers,
        "seed": options.seed,
        "killed_workers": soak.killed_workers,
        "killed_agents": soak.killed_agents,
        "rounds": rounds,
        "faults": faults,
        "calm": {name: [asdict(one), asdict(soak.after[name])] for name, one in soak.before.items()},
        "memory_mib": {name: [one.memory_mib for one in found] for name, found in soak.samples.items()},
        "growth_mib": {name: soak.growth_mib(name) for name in soak.samples},
    }
    for name, value in result.items():
        _tell(f"{name}: {value}")
    if options.write:
        _tell(f"written to {measured.write('soak', result)}")
    return 1 if faults else 0


def _tell(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
