"""Seeds: drawn settings, drawn faults, every accepted write checked, and it settles in the end."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpc_elastic.testing.simulated_seeds import run_seeds
from hpc_elastic.testing.simulation import Simulation

pytestmark = pytest.mark.timeout(1200)  # all of it is computing, which takes as long as others compute

SEEDS = range(300)
ONCE_BROKEN = Path(__file__).with_name("seeds.txt")


def once_broken() -> list[int]:
    """Every seed that ever failed."""
    lines = ONCE_BROKEN.read_text(encoding="utf-8").splitlines()
    return [int(line.split()[0]) for line in lines if line and not line.startswith("#")]


def test_every_run_keeps_its_promises_and_is_done_in_the_end() -> None:
    seeds = dict.fromkeys([*SEEDS, *once_broken()])

    broken = [result for result in run_seeds(seeds) if result.broken]

    told = [f"make replay SEED={result.seed}: {result.broken[0]}" for result in broken]
    assert not broken, "\n".join(told)


def test_the_same_seed_tells_the_same_story() -> None:
    first, second = Simulation.of_seed(7), Simulation.of_seed(7)

    first.run()
    second.run()

    assert first.story == second.story
    assert first.backend.ledger == second.backend.ledger
    assert first.operations == second.operations
