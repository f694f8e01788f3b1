"""Several memberships in one process, over one directory, with short times."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from hpc_elastic.backends.base import Backend
from hpc_elastic.backends.file import FileBackend
from hpc_elastic.clock import SYSTEM_CLOCK, Clock
from hpc_elastic.rendezvous.membership import Membership
from hpc_elastic.rendezvous.record import Outcome
from hpc_elastic.rendezvous.standing import JobStart, Seat, Settings
from tests.waiting import wait_until

START = JobStart("cluster", "1", nodes=("n0", "n1", "n2", "n3"))
FAST = Settings(
    min_nodes=2,
    max_nodes=3,
    expected_nodes=2,
    max_restarts=1,
    heartbeat_s=1.0,  # on a busy machine a thread may well stand still for a second
    last_call_s=30.0,  # or for longer: all that are to be in the first round are awaited
    join_window_s=0.1,
    shutdown_timeout_s=2.0,
    allow_loopback=True,
)
TIME_S = 60.0


class Fleet:
    """Opens memberships and leaves them all at the end."""

    def __init__(self, root: Path, settings: Settings = FAST) -> None:
        self.root = root
        self.settings = settings
        self.opened: list[Membership] = []

    def open(
        self,
        place: int,
        *,
        start: JobStart = START,
        backend: Backend | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> Membership:
        seat = Seat(f"n{place}", place, "host", "127.0.0.1", slots=1)
        member = Membership.open(backend or FileBackend(self.root), start, seat, self.settings, clock)
        self.opened.append(member)
        member.start()
        return member

    def form(self, count: int, *, restart: int = 0) -> list[Membership]:
        """`count` nodes that have started a round together."""
        self.settings = replace(self.settings, expected_nodes=count)
        start = replace(START, restart_count=restart)
        members = [self.open(place, start=start) for place in range(count)]
        for member in members:
            member.join()
        started(members)
        return members

    def close(self) -> None:
        for member in self.opened:
            member.leave(Outcome.SAVED, "the test is over", 2.0)
            member.close()


def each(members: list[Membership], condition: Callable[[Membership], object], what: str) -> None:
    """Wait until `condition` holds for every member."""
    wait_until(lambda: all(condition(member) for member in members), TIME_S, what)


def started(members: list[Membership], number: int = 1) -> None:
    """Wait until round `number` or a later one has started on every member."""

    def has_started(member: Membership) -> bool:
        current = member.standing().round
        return current is not None and current.number >= number

    each(members, has_started, f"round {number} has started everywhere")


def kill(member: Membership) -> None:
    """End the keeper without a goodbye, as SIGKILL does."""
    member._is_over.set()
    member._wake.set()
    member._thread.join(TIME_S)
    assert not member._thread.is_alive()
