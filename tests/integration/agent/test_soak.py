"""Half a minute of the soak: kills of workers and agents at random leave nothing behind and nothing open."""

from __future__ import annotations

import random
from pathlib import Path

from tests.integration.agent.agents import agents_in
from tests.integration.agent.soak import Soak

SECONDS = 12.0  # benchmarks/soak.py makes 30 minutes
GROWTH_MIB = 20.0  # of so short a run little can be said


def test_agents_that_saw_others_and_their_workers_killed_hold_no_more_than_before(tmp_path: Path) -> None:
    told: list[str] = []
    with agents_in(tmp_path) as agents:
        soak = Soak(agents, nodes=4, per_node=2, chance=random.Random(1))
        soak.run(SECONDS, told.append)
        statuses = soak.finish()

    assert set(statuses.values()) == {0}, statuses
    assert soak.killed_workers + soak.killed_agents > 2
    assert soak.rounds > 2
    assert soak.leaks(GROWTH_MIB) == []
    assert told
