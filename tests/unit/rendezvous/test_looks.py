"""What one node asks of the record while it waits, operation by operation."""

from __future__ import annotations

from hpc_elastic.backends.memory import MemoryBackend
from hpc_elastic.rendezvous import keys
from hpc_elastic.rendezvous.actions import Action
from hpc_elastic.rendezvous.driver import Driver
from hpc_elastic.rendezvous.entry import SeatTaking
from hpc_elastic.rendezvous.operations import Names, Operation, Read, finish, perform
from hpc_elastic.rendezvous.pacing import GLANCES_FOR_S
from hpc_elastic.rendezvous.seen import Wish
from hpc_elastic.rendezvous.situation import Situation
from hpc_elastic.rendezvous.standing import Seat, Settings
from hpc_elastic.testing.simulated_agent import SimulatedPorts
from tests.unit.rendezvous.worlds import ATTEMPT, WALL

NODES = 6
RULES = Settings(NODES, NODES, NODES, allow_loopback=True)
JOINING = Wish(joining=1)


class CountingDriver(Driver):
    """Counts how often it decides."""

    decisions = 0

    def decide(self, s: Situation) -> tuple[Action, ...]:
        self.decisions += 1
        return super().decide(s)


def driver(order: int) -> CountingDriver:
    seat = Seat(f"n{order}", order, f"n{order}", f"10.0.0.{order}", slots=1)
    return CountingDriver(f"1-n{order}-0", ATTEMPT, seat, RULES, SimulatedPorts())


def asked(one: Driver, backend: MemoryBackend, now_s: float, wish: Wish = JOINING) -> list[Operation]:
    """The operations of one turn, carried out."""
    trip, operations = one.trip(wish, now_s, WALL), []
    try:
        operation = next(trip)
        while True:
            operations.append(operation)
            operation = trip.send(perform(backend, operation))
    except StopIteration:
        return operations


def presences(operations: list[Operation]) -> list[str]:
    return [one.key for one in operations if isinstance(one, Read) and one.key.startswith(keys.NODES)]


def settled(backend: MemoryBackend, one: CountingDriver) -> CountingDriver:
    """After the turns in which it takes its seat, says that it is there and hears its own bell."""
    for turn in range(4):
        asked(one, backend, turn * 0.001)
    return one


def test_who_waits_for_the_first_one_glances_at_the_bell_alone() -> None:
    backend = MemoryBackend()
    waiting = settled(backend, driver(1))

    assert asked(waiting, backend, 0.01) == [Read(keys.BELL)]


def test_a_glance_that_finds_a_new_bell_becomes_a_look_with_no_second_read_of_it() -> None:
    backend = MemoryBackend()
    waiting = settled(backend, driver(1))
    first = driver(0)
    for order in range(2, NODES):
        settled(backend, driver(order))
    for turn in range(3):
        asked(first, backend, turn * 0.001)

    operations = asked(waiting, backend, 0.01)

    assert operations[:2] == [Read(keys.BELL), Read(keys.round_key(1))]


def test_a_wish_and_the_time_end_the_glances() -> None:
    backend = MemoryBackend()
    wished, timed = settled(backend, driver(1)), settled(backend, driver(2))
    before = wished.decisions, timed.decisions

    asked(wished, backend, 0.01, Wish(joining=1))
    asked(timed, backend, 0.01)
    assert (wished.decisions, timed.decisions) == (before[0] + 1, before[1])

    asked(timed, backend, 0.01 + GLANCES_FOR_S)
    assert timed.decisions == before[1] + 1


def test_a_node_that_has_not_asked_for_a_round_reads_nobody() -> None:
    backend = MemoryBackend()
    for order in range(1, NODES):
        settled(backend, driver(order))
    idle = driver(0)

    operations = asked(idle, backend, 0.0, Wish()) + asked(idle, backend, 0.01, Wish())

    assert presences(operations) == []
    assert Names(keys.NODES) not in operations


def test_the_proposer_asks_the_members_in_order_up_to_the_first_that_has_not_confirmed() -> None:
    backend = MemoryBackend()
    members = [driver(order) for order in range(NODES)]
    for one in reversed(members):
        settled(backend, one)
    assert backend.read(keys.round_key(1)) is not None

    for confirming in (1, 3, 4, 5):
        asked(members[confirming], backend, 0.01)
    first = asked(members[0], backend, 0.02)
    second = asked(members[0], backend, 0.03)

    assert presences(first) == ["nodes/1-n1-0", "nodes/1-n2-0"]
    assert presences(second) == ["nodes/1-n2-0"]


def test_a_seat_whose_claim_was_lost_with_the_host_that_wrote_it_is_free() -> None:
    for lost in (b"", b"\0" * 90):
        backend = MemoryBackend()
        backend.create(keys.seat_key(1, "n0", 0), lost)
        taking = SeatTaking(ATTEMPT, Seat("n0", 0, "n0", "10.0.0.1", slots=1), RULES, "1-n0-1")

        assert finish(taking.attempt_claim(0.0), backend)
        assert taking.claim == 1
