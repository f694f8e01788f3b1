"""Twenty thousand simulated runs of the rendezvous: what broke, how much was simulated, how fast.

With `--write` it runs all of them, which takes 40 minutes on two cores; else three hundred.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

from benchmarks import measured
from hpc_elastic.testing.simulated_seeds import MOST_NODES, Summary, run_seeds, summarize


def as_json(summary: Summary, first: int) -> dict[str, Any]:
    """The summary as it is kept."""
    return {
        "what": "simulated runs, settings and faults drawn; every accepted write checked; each settles",
        "seeds": f"{first} to {first + summary.seeds - 1}",
        "most_nodes": MOST_NODES,
        "broken": {str(result.seed): result.broken[0][:300] for result in summary.failed},
        "agents": summary.agents,
        "records": summary.records,
        "operations": summary.operations,
        "simulated_hours": round(summary.simulated_s / 3600, 1),
        "took_s": round(summary.took_s, 1),
        "seeds_per_s": round(summary.seeds / max(summary.took_s, 0.001), 2),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description="many simulated runs, and what broke")
    parser.add_argument("--seeds", default="", metavar="A:B", help="the seeds from A to B-1")
    parser.add_argument("--write", action="store_true", help="keep it in docs/measured/simulation.json")
    options = parser.parse_args()

    wanted = options.seeds or ("0:20000" if options.write else "0:300")
    first, _, last = wanted.partition(":")
    summary = summarize(run_seeds(range(int(first), int(last))))
    print(summary)
    if options.write:
        print(f"written to {measured.write('simulation', as_json(summary, int(first)))}")
    return 1 if summary.failed else 0


if __name__ == "__main__":
    sys.exit(main())
