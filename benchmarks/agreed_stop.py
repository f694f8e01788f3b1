"""The agreed stop: sixteen ranks that step at random, one node is told, and where each rank stops.

    python -m benchmarks.agreed_stop [--trials 200] [--longest 2.0] [--at-once 5] [--seed 1] [--write]

Each trial is a run of four agents with four ranks each, whose steps take a random time up to `--longest`
seconds; a trial is the same for the same seed. Beside it what `should_stop` and `progress` cost together in
a step while nothing is announced. Ends with status 1 when two ranks stopped at different steps.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from benchmarks import measured
from hpc_elastic.worker import Context
from hpc_elastic.workers.page import Page, WorkerPage
from tests.integration.agent import stop_trials
from tests.integration.agent.stop_trials import NODES, RANKS, Trial

_STEPS: Final = 20_000
_BATCHES: Final = 15


def overhead_us() -> list[float]:
    """Microseconds of `should_stop` and `progress` in one step: the mean of each batch, lowest first."""
    page = Page.create(1)
    ctx = Context(page=WorkerPage.attach(page.env_value(), 0))
    found = []
    for _ in range(_BATCHES):
        began_s = time.perf_counter()
        for step in range(_STEPS):
            ctx.progress(step)
            ctx.should_stop(step)
        found.append(1e6 * (time.perf_counter() - began_s) / _STEPS)
    return sorted(found)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--longest", type=float, default=2.0, metavar="S", help="the longest step")
    parser.add_argument("--at-once", type=int, default=5, help="trials that run at the same time")
    parser.add_argument("--seed", type=int, default=1, help="of the first trial")
    parser.add_argument("--write", action="store_true", help="to docs/measured/agreed_stop.json")
    options = parser.parse_args()

    costs_us = overhead_us()
    trials = [Trial.of(seed, options.longest) for seed in range(options.seed, options.seed + options.trials)]
    began_s = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="agreed-stop-") as scratch:
        stops = stop_trials.run(trials, Path(scratch), at_once=options.at_once)
    faults = [fault for stop in stops for fault in stop.faults()]
    took_s = sorted(stop.took_s for stop in stops)
    result = {
        "what": "ranks of real agents with random steps, a notice to one node: do all stop at the same step",
        "nodes": NODES,
        "ranks": RANKS,
        "longest_step_s": options.longest,
        "trials": len(trials),
        "first_seed": options.seed,
        "seconds": round(time.monotonic() - began_s, 1),
        "faults": faults,
        "notice_to_last_exit_s": {
            "median": round(statistics.median(took_s), 2),
            "highest": round(took_s[-1], 2),
        },
        "overhead_of_a_step_us": {
            "lowest": round(costs_us[0], 2),
            "median": round(statistics.median(costs_us), 2),
            "highest": round(costs_us[-1], 2),
        },
    }
    for name, value in result.items():
        print(f"{name}: {value}")
    if options.write:
        print(f"written to {measured.write('agreed_stop', result)}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
