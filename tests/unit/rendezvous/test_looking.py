"""What a node reads of the others while it does not need them."""

from __future__ import annotations

from hpc_elastic.backends.memory import MemoryBackend
from hpc_elastic.rendezvous.driver import Driver
from hpc_elastic.rendezvous.entry import find_attempt
from hpc_elastic.rendezvous.operations import finish
from hpc_elastic.rendezvous.seen import Wish
from hpc_elastic.rendezvous.standing import JobStart, Seat, Settings

SETTINGS = Settings(2, 3, 3)


class Watched(MemoryBackend):
    """Keeps what is read and listed."""

    def __init__(self) -> None:
        super().__init__()
        self.looked: list[str] = []

    def read(self, key: str) -> bytes | None:
        self.looked.append(key)
        return super().read(key)

    def names(self, folder: str) -> frozenset[str]:
        self.looked.append(folder)
        return super().names(folder)


class Port:
    def hold(self) -> int:
        return 1

    def release(self) -> None:
        return None


def driver(backend: MemoryBackend, place: int) -> Driver:
    attempt = finish(find_attempt(JobStart("c", "1"), f"n{place}-x", ""), backend)
    seat = Seat(f"n{place}", place, "host", "10.0.0.1", slots=1)
    return Driver(f"1-n{place}-x", attempt, seat, SETTINGS, Port())


def test_a_bell_that_rang_before_a_node_asks_for_a_round_makes_it_read_nobody() -> None:
    backend = Watched()
    for place in (0, 1):
        driver(backend, place).step(backend, Wish(joining=1), 0.0, "")
    assert backend.read("bell") is not None

    newcomer = driver(backend, 2)
    backend.looked.clear()
    newcomer.step(backend, Wish(), 0.1, "")

    assert "bell" in backend.looked
    assert not [key for key in backend.looked if key.startswith("nodes")]
