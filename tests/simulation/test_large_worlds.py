"""The largest worlds: their records stay small, and they are formed in bounded time."""

from __future__ import annotations

from random import Random

import pytest

from hpc_elastic.rendezvous import keys
from hpc_elastic.rendezvous.codec import encode
from hpc_elastic.rendezvous.driver import Driver
from hpc_elastic.rendezvous.operations import Trip
from hpc_elastic.rendezvous.record import Member, Round, Verdict
from hpc_elastic.rendezvous.seen import Wish
from hpc_elastic.rendezvous.standing import Settings
from hpc_elastic.testing.simulated_setting import Setting
from hpc_elastic.testing.simulation import Simulation

pytestmark = pytest.mark.timeout(1200)  # all of it is computing, which takes as long as others compute

MOST_RECORD_BYTES = 160 * 1024
TURNS_OF_A_NODE = 40
# Measured: 23 and 42, the latter while an operation takes long; of a node in a world of 256 it is 20 and 40.
OPERATIONS_OF_A_NODE = 60


def member(index: int) -> Member:
    """As on a large machine: long names, and addresses of the second network, in IPv6."""
    name = f"gpu-rack{index // 32:03}-node{index % 32:02}"
    address = f"fd00:cafe:12:{index // 250:x}::{index % 250:x}"
    return Member(f"{1234}-{name}-9f3c01ab", name, 8, "default", address)


def test_the_record_of_a_round_of_a_thousand_nodes_stays_small() -> None:
    members = tuple(map(member, range(1000)))
    record = Round(
        number=4321,
        attempts=(1234,),
        members=members,
        master_address=members[0].address,
        master_port=65535,
        why="members joining",
        failures=3,
        changes=17,
        created_at="2026-01-01T00:00:00+00:00",
        writer=members[0].node,
    )

    assert len(encode(record)) < MOST_RECORD_BYTES


def test_a_world_of_4096_nodes_is_formed_with_a_bounded_number_of_operations() -> None:
    nodes = 4096
    settings = Settings(nodes, nodes, nodes, join_timeout_s=10_000.0, allow_loopback=True)
    setting = Setting(nodes, settings, hurry_s=0.3, operation_s=0.0002, starts_within_s=0.5, trouble_s=1e9)
    simulation = Simulation(setting, Random(1))

    simulation.job.begin()
    while keys.verdict_key(1) not in simulation.backend.ledger and simulation.now_s < 120.0:
        simulation.advance()

    verdict, world = (simulation.backend.ledger.get(key) for key in (keys.verdict_key(1), keys.round_key(1)))
    assert isinstance(verdict, Verdict)
    assert verdict.started
    assert isinstance(world, Round)
    assert [member.name for member in world.members] == [f"n{index}" for index in range(nodes)]
    assert simulation.operations < TURNS_OF_A_NODE * nodes
    assert not simulation.broken


class EarlyDriver(Driver):
    """As in an agent: its first look is made before anybody has asked for a round."""

    _has_looked = False

    def trip(self, wish: Wish, now_s: float, wall: str) -> Trip[float]:
        has_looked, self._has_looked = self._has_looked, True
        return super().trip(wish if has_looked else Wish(), now_s, wall)


def operations_until_all_have_met(nodes: int, operation_s: float) -> int:
    """Of a start of so many nodes at once, over a record that answers within `operation_s`."""
    settings = Settings(nodes, nodes, nodes, join_timeout_s=10_000.0, allow_loopback=True)
    setting = Setting(
        nodes, settings, hurry_s=0.001, operation_s=operation_s, starts_within_s=0.01, trouble_s=1e9
    )
    simulation = Simulation(setting, Random(1), make_driver=EarlyDriver)

    simulation.job.begin()
    while not (agents := simulation.alive()) or any(one.driver.standing.round is None for one in agents):
        simulation.advance()
        assert simulation.now_s < 60.0
        assert not simulation.broken
    return simulation.operations


@pytest.mark.parametrize("operation_s", [0.0005, 0.01])
def test_the_operations_of_a_start_grow_no_faster_than_its_nodes(operation_s: float) -> None:
    found = {nodes: operations_until_all_have_met(nodes, operation_s) for nodes in (16, 64, 256)}

    assert found[64] <= 1.15 * 4 * found[16]
    assert found[256] <= 1.15 * 16 * found[16]
    assert found[16] <= OPERATIONS_OF_A_NODE * 16
