"""A simulation that finds nothing proves nothing: bugs are planted, and every one has to be found."""

from __future__ import annotations

import pytest

from hpc_elastic.testing.simulated_seeds import processes_of_their_own
from hpc_elastic.testing.simulation import Simulation
from tests.simulation.planted import PLANTED

pytestmark = pytest.mark.timeout(1200)  # all of it is computing, which takes as long as others compute

WITHIN_SEEDS = 80


def seed_that_finds(name: str) -> tuple[int | None, str]:
    """The first seed that breaks with this bug, and what it says."""
    bug = PLANTED[name]
    for seed in range(WITHIN_SEEDS):
        simulation = Simulation.of_seed(seed, make_driver=bug.make_driver, make_backend=bug.make_backend)
        try:
            broken = simulation.run()
        except Exception as fault:  # noqa: BLE001 - a bug may also break the code around it
            return seed, repr(fault)
        if broken:
            return seed, broken[0]
    return None, ""


def test_every_planted_bug_is_found_within_eighty_seeds() -> None:
    with processes_of_their_own() as processes:
        found = dict(zip(PLANTED, processes.map(seed_that_finds, PLANTED), strict=True))

    survivors = [name for name, (seed, _) in found.items() if seed is None]
    assert not survivors
    assert len(found) >= 12
