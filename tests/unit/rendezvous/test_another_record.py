"""A run directory in whose place somebody has put that of another run: nobody acts in it."""

from __future__ import annotations

import pytest

from hpc_elastic.backends.memory import MemoryBackend
from hpc_elastic.errors import RecordLost
from hpc_elastic.rendezvous import keys
from hpc_elastic.rendezvous.driver import Driver
from hpc_elastic.rendezvous.entry import find_attempt
from hpc_elastic.rendezvous.observer import STANDS_FOR_S
from hpc_elastic.rendezvous.operations import finish
from hpc_elastic.rendezvous.record import Cause
from hpc_elastic.rendezvous.seen import EndWish, Wish
from hpc_elastic.rendezvous.standing import JobStart, Seat, Settings
from hpc_elastic.rendezvous.watching import RECORDS_EVERY_S
from hpc_elastic.testing.simulated_agent import SimulatedPorts
from tests.unit.rendezvous.worlds import WALL

RULES = Settings(2, 2, 2, allow_loopback=True, heartbeat_s=1.0)
JOINING = Wish(joining=1)


class Run:
    """Two nodes of a run of their own; `backend` may be changed under them."""

    def __init__(self, name: str) -> None:
        self.backend = MemoryBackend()
        self.wishes = [JOINING, JOINING]
        self.drivers = [self._driver(name, place) for place in (0, 1)]

    def _driver(self, name: str, place: int) -> Driver:
        writer = f"{name}{place}"
        attempt = finish(find_attempt(JobStart("c", name), writer, WALL), self.backend)
        seat = Seat(writer, place, writer, f"10.0.0.{place}", slots=1)
        return Driver(f"{attempt.number}-{writer}-0", attempt, seat, RULES, SimulatedPorts())

    def live(self, since_s: float, until_s: float) -> None:
        for tenth in range(round(since_s * 10), round(until_s * 10)):
            for driver, wish in zip(self.drivers, self.wishes, strict=True):
                driver.step(self.backend, wish, tenth / 10, WALL)


@pytest.fixture
def run() -> Run:
    """A run whose round has started, with the record of another one in the place of its own."""
    mine, other = Run("mine"), Run("other")
    for one in (mine, other):
        one.live(0.0, 3.0)
        assert all(driver.standing.round for driver in one.drivers)
    mine.backend = other.backend
    return mine


def test_nothing_is_made_in_the_record_of_another_run(run: Run) -> None:
    run.live(3.0, 4.0 + STANDS_FOR_S)
    run.wishes[1] = Wish(joining=1, end=EndWish(1, Cause.WORKER_FAILED, 0, 1, "boom"))

    run.live(4.0 + STANDS_FOR_S, 8.0 + STANDS_FOR_S)

    assert run.backend.read(keys.end_key(1)) is None
    error = run.drivers[1].standing.error
    assert isinstance(error, RecordLost)
    assert "another run's is in its place" in str(error)
    assert "begun by other0, not by mine0" in str(error)


def test_who_has_nothing_to_do_notices_it_with_the_next_listing(run: Run) -> None:
    run.live(3.0, 7.0 + RECORDS_EVERY_S)

    assert all(isinstance(driver.standing.error, RecordLost) for driver in run.drivers)
    assert run.backend.names(keys.ROUNDS) == {"1", "1.verdict"}
