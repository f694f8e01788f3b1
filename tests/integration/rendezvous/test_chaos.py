"""Many real processes, killed, stopped and brought back at random: the record breaks none of its promises.

`python -m benchmarks.chaos` does the same with 32 members for two minutes.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hpc_elastic.testing.etcd_server import EtcdServer
from tests.integration.rendezvous.chaos import Chaos
from tests.integration.rendezvous.nursery import Plan

NODES = 10
SECONDS = 20.0
SOON_S = 120.0
MakeChaos = Callable[..., Chaos]


@pytest.fixture
def make_chaos(tmp_path: Path) -> Iterator[MakeChaos]:
    made: list[Chaos] = []

    def make(etcd: str = "") -> Chaos:
        plan = Plan(tmp_path / "run", NODES, min_nodes=3, heartbeat_s=0.5, etcd=etcd)
        made.append(Chaos(plan, random.Random(7)))
        return made[0]

    yield make
    for chaos in made:
        chaos.end()


def test_members_over_a_directory_agree_again_after_random_kills_and_stops(make_chaos: MakeChaos) -> None:
    survive(make_chaos())


@pytest.mark.needs_etcd
def test_members_over_etcd_agree_again_after_random_kills_and_stops(
    make_chaos: MakeChaos, etcd_server: EtcdServer
) -> None:
    survive(make_chaos(etcd_server.endpoint))


def survive(chaos: Chaos) -> None:
    assert chaos.ledger() == {}

    for place in range(NODES):
        chaos.start(place)
    chaos.settle(SOON_S)

    chaos.rage(SECONDS, lambda: has_seen_much(chaos))  # on a slow machine less happens in the same time
    chaos.settle(SOON_S)
    chaos.finish(SOON_S)

    assert has_seen_much(chaos)
    assert chaos.violations() == []


def has_seen_much(chaos: Chaos) -> bool:
    return min(chaos.done["killed"], chaos.done["stopped"], len(chaos.started_rounds())) > 3
