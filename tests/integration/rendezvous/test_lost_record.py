"""A record that is out of reach or removed: what an agent is told, and when."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from hpc_elastic.backends.memory import MemoryBackend
from hpc_elastic.clock import SYSTEM_CLOCK
from hpc_elastic.errors import (
    BackendUnavailable,
    RecordLost,
)
from hpc_elastic.rendezvous.membership import Membership
from hpc_elastic.rendezvous.record import Outcome
from hpc_elastic.rendezvous.standing import Seat
from tests.integration.rendezvous.fleet import FAST, START, TIME_S, Fleet, each, started
from tests.waiting import wait_until


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    fleet = Fleet(tmp_path / "record")
    yield fleet
    fleet.close()


def test_a_record_that_is_removed_is_lost_quickly(fleet: Fleet) -> None:
    member = fleet.form(2)[0]
    # Moved away first: what the keepers write meanwhile would make rmtree fail.
    shutil.rmtree(fleet.root.rename(fleet.root.with_name("removed")), ignore_errors=True)

    each([member], lambda member: member.standing().error, "the loss is told")
    error = member.standing().error
    assert isinstance(error, RecordLost)
    assert "no longer there" in str(error)


def test_a_record_out_of_reach_is_lost_only_after_its_budget(fleet: Fleet) -> None:
    fleet.settings = replace(FAST, min_nodes=1, expected_nodes=1, store_lost_s=100.0)
    backend, clock = Interrupted(), HaltedClock()
    member = fleet.open(0, backend=backend, clock=clock)
    member.join()
    started([member])
    backend.is_out = True
    wait_until(lambda: backend.refused > 1, TIME_S, "the outage is noticed")
    clock.halt()
    clock.sleep_s(30.0)
    refused = backend.refused
    wait_until(lambda: backend.refused > refused + 2, TIME_S, "it goes on trying")
    assert member.standing().error is None

    clock.sleep_s(71.0)
    each([member], lambda member: member.standing().error, "the budget is spent")
    assert isinstance(member.standing().error, RecordLost)


def test_whoever_waits_is_told_of_an_outage_that_lasts_and_of_its_end(fleet: Fleet) -> None:
    fleet.settings = replace(FAST, min_nodes=2, expected_nodes=2, store_lost_s=10 * TIME_S)
    backend = Interrupted()
    member = fleet.open(0, backend=backend)
    member.join()
    wait_until(lambda: "1 of 2 nodes" in member.standing().waiting_for, TIME_S, "it waits for the other")

    backend.is_out = True
    cut = "the run record is out of reach: the test has cut the line"
    wait_until(lambda: member.standing().waiting_for == cut, TIME_S, "the outage is told")
    backend.is_out = False

    wait_until(lambda: "1 of 2 nodes" in member.standing().waiting_for, TIME_S, "it waits as before")


class Interrupted(MemoryBackend):
    """A backend that can be out of reach."""

    is_out = False
    refused = 0

    def read(self, key: str) -> bytes | None:
        self._refuse()
        return super().read(key)

    def overwrite(self, key: str, value: bytes) -> None:
        self._refuse()
        super().overwrite(key, value)

    def _refuse(self) -> None:
        if self.is_out:
            self.refused += 1
            raise BackendUnavailable("the test has cut the line")


class HaltedClock:
    """The clock of the machine; once it is halted, time passes by `sleep_s` only."""

    def __init__(self) -> None:
        self._halted_at_s: float | None = None

    def halt(self) -> None:
        self._halted_at_s = SYSTEM_CLOCK.monotonic_s()

    def monotonic_s(self) -> float:
        return SYSTEM_CLOCK.monotonic_s() if self._halted_at_s is None else self._halted_at_s

    def sleep_s(self, seconds: float) -> None:
        assert self._halted_at_s is not None
        self._halted_at_s += seconds

    def utc_now(self) -> str:
        return SYSTEM_CLOCK.utc_now()


def test_leaving_is_bounded_when_the_record_is_out_of_reach() -> None:
    backend = Interrupted()
    member = Membership.open(backend, START, Seat("n0", 0, "host", "127.0.0.1", 1), FAST)
    member.start()
    member.join()
    wait_until(lambda: backend.names("nodes"), TIME_S, "the node is there")
    backend.is_out = True

    assert not member.leave(Outcome.UNSAVED, "gone", 0.3)
    member.close()
