"""Many seeds, on all cores: `python -m hpc_elastic.testing.simulation`."""

from __future__ import annotations

import argparse
import os
import time
import traceback
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context

from hpc_elastic.testing.simulation import Simulation

MOST_NODES = 10
_CHUNK = 10


@dataclass(frozen=True)
class SeedResult:
    """How one seed went. `broken` has every broken promise; empty is what is wanted."""

    seed: int
    broken: tuple[str, ...]
    operations: int
    simulated_s: float
    agents: int
    records: int


def run_seed(seed: int, most_nodes: int = MOST_NODES) -> SeedResult:
    """One seed; an error of the code counts as a broken promise."""
    simulation = Simulation.of_seed(seed, most_nodes=most_nodes)
    try:
        simulation.run()
    except Exception:  # noqa: BLE001 - the other seeds are to be run as well
        simulation.broken.append(traceback.format_exc())
    return SeedResult(
        seed,
        tuple(simulation.broken),
        simulation.operations,
        simulation.now_s,
        len(simulation.agents),
        len(simulation.backend.ledger),
    )


def run_seeds(seeds: Iterable[int], most_nodes: int = MOST_NODES) -> Iterator[SeedResult]:
    """All of them, in their order, by as many processes as there are cores."""
    wanted = list(seeds)
    with processes_of_their_own() as processes:
        yield from processes.map(run_seed, wanted, [most_nodes] * len(wanted), chunksize=_CHUNK)


def processes_of_their_own() -> ProcessPoolExecutor:
    """As many as there are cores, started anew: a fork would take along what threads of this one hold."""
    return ProcessPoolExecutor(len(os.sched_getaffinity(0)), get_context("spawn"))


@dataclass(frozen=True)
class Summary:
    """What came out of many seeds."""

    seeds: int
    failed: tuple[SeedResult, ...]
    agents: int
    records: int
    operations: int
    simulated_s: float
    took_s: float

    def __str__(self) -> str:
        return (
            f"{self.seeds} seeds, {len(self.failed)} with broken promises; {self.agents} agents, "
            f"{self.records} records, {self.operations} operations, {self.simulated_s / 3600:.1f} simulated "
            f"hours in {self.took_s:.0f} s ({self.seeds / max(self.took_s, 0.001):.1f} seeds/s)"
        )


def summarize(results: Iterable[SeedResult]) -> Summary:
    """Run through `results`, telling of each failure as it comes."""
    began_s = time.monotonic()
    found = []
    for result in results:
        found.append(result)
        if result.broken:
            print(f"seed {result.seed}: {result.broken[0][:600]}", flush=True)
    return Summary(
        seeds=len(found),
        failed=tuple(result for result in found if result.broken),
        agents=sum(result.agents for result in found),
        records=sum(result.records for result in found),
        operations=sum(result.operations for result in found),
        simulated_s=sum(result.simulated_s for result in found),
        took_s=time.monotonic() - began_s,
    )


def replay(seed: int, most_nodes: int = MOST_NODES) -> int:
    """Print the story of one seed, and what it broke."""
    simulation = Simulation.of_seed(seed, most_nodes=most_nodes)
    print(f"seed {seed}: {simulation.setting}\n")
    try:
        broken = simulation.run()
    finally:
        print("\n".join(simulation.story))
    print("\n" + ("\n".join(broken) or "every promise was kept"))
    return 1 if broken else 0


def main() -> int:
    """The command line of the simulation."""
    parser = argparse.ArgumentParser(description="simulated runs of the rendezvous under drawn faults")
    parser.add_argument("--seeds", default="0:300", metavar="A:B", help="run the seeds from A to B-1")
    parser.add_argument("--replay", type=int, metavar="SEED", help="tell the story of one seed")
    parser.add_argument("--most-nodes", type=int, default=MOST_NODES, help="nodes of a run at most")
    options = parser.parse_args()
    if options.replay is not None:
        return replay(options.replay, options.most_nodes)
    first, _, last = options.seeds.partition(":")
    summary = summarize(run_seeds(range(int(first), int(last)), options.most_nodes))
    print(summary)
    return 1 if summary.failed else 0
