"""Fifty attempts leave little behind: the history of the run, and the last two attempts' nodes."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from hpc_elastic.backends.base import Backend
from hpc_elastic.backends.file import FileBackend
from hpc_elastic.backends.memory import MemoryBackend
from hpc_elastic.rendezvous import keys
from hpc_elastic.rendezvous.driver import Driver
from hpc_elastic.rendezvous.entry import find_attempt
from hpc_elastic.rendezvous.operations import finish
from hpc_elastic.rendezvous.seen import Wish
from hpc_elastic.rendezvous.standing import JobStart, Seat, Settings
from hpc_elastic.stores.rounds import STORES, space_of
from hpc_elastic.testing.simulated_agent import SimulatedPorts

ATTEMPTS = 50
NODES = 4
WALL = "2026-01-01T00:00:00+00:00"
# Of each attempt: itself; of each round: proposal, verdict, end, settled.
HISTORY_FILES_PER_ATTEMPT = 5
HISTORY_BYTES_PER_ATTEMPT = 3000


@pytest.fixture(params=["memory", "file"])
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Backend]:
    opened: Backend = MemoryBackend() if request.param == "memory" else FileBackend(tmp_path / "record")
    yield opened
    opened.close()


def start_of(backend: Backend, number: int, settings: Settings, *, array_task: str = "") -> list[Driver]:
    """The agents of one start, killed later without a goodbye."""
    start = JobStart("c", "1", array_task=array_task, restart_count=number)
    attempt = finish(find_attempt(start, "w", WALL), backend)
    seats = [Seat(f"n{index}", index, "h", f"10.0.0.{index}", 1) for index in range(NODES)]
    return [
        Driver(f"{attempt.number}-{seat.name}-{number:x}", attempt, seat, settings, SimulatedPorts())
        for seat in seats
    ]


def live_through(backend: Backend, drivers: list[Driver], began_s: float) -> None:
    """They form a round, use its store, and run for a while."""
    wish = Wish(joining=1, joining_since_s=began_s)
    for turn in range(60):
        now_s = began_s + turn * 0.2
        for driver in drivers:
            driver.step(backend, wish, now_s, WALL)
    current = drivers[0].standing.round
    assert current is not None
    for index in range(3):
        backend.create(f"{space_of(current.number)}/key{index}", b"value")


def stored(backend: Backend, folder: str) -> frozenset[str]:
    return backend.names(folder)


def test_fifty_attempts_leave_their_history_and_little_else(backend: Backend) -> None:
    settings = Settings(NODES, NODES, NODES, allow_loopback=True)

    for number in range(ATTEMPTS):
        live_through(backend, start_of(backend, number, settings), number * 1000.0)

    assert {keys.attempt_of(node) for node in stored(backend, keys.NODES)} <= {ATTEMPTS, ATTEMPTS - 1}
    assert len(stored(backend, keys.NODES)) <= 2 * NODES
    seats = [name for name in stored(backend, keys.ATTEMPTS) if ".seat." in name]
    assert len(seats) <= 2 * NODES
    left = [number for number in range(1, ATTEMPTS + 1) if stored(backend, space_of(number))]
    assert left == [ATTEMPTS - 1, ATTEMPTS]
    history = [(folder, name) for folder in (keys.ROUNDS, keys.ATTEMPTS) for name in stored(backend, folder)]
    assert len(history) - len(seats) <= ATTEMPTS * HISTORY_FILES_PER_ATTEMPT
    size_bytes = sum(len(backend.read(f"{folder}/{name}") or b"") for folder, name in history)
    assert size_bytes < ATTEMPTS * HISTORY_BYTES_PER_ATTEMPT


def test_fifty_starts_of_an_element_leave_the_pool_tidy() -> None:
    backend = MemoryBackend()
    settings = Settings(NODES, NODES, NODES, pool=True, last_call_s=0.0, allow_loopback=True)
    beginnings = count(0, 1000)

    for number in range(ATTEMPTS):
        live_through(backend, start_of(backend, number, settings, array_task="0"), float(next(beginnings)))

    assert len(stored(backend, keys.NODES)) <= 3 * NODES
    assert len([name for name in stored(backend, keys.ATTEMPTS) if ".seat." in name]) <= 6 * NODES
    assert not stored(backend, f"{STORES}/{ATTEMPTS - 2}")
