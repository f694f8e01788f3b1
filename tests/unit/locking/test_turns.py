"""Turns save work: one of many acts, and nobody waits for the dead."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from hpc_elastic.clock import SystemClock
from hpc_elastic.locking.turns import PAUSES_S, in_turn


class UntilDone(SystemClock):
    """Who sleeps does so until the one whose turn it is has acted, however slow it is."""

    def __init__(self) -> None:
        self.is_done = threading.Event()

    def sleep_s(self, seconds: float) -> None:
        self.is_done.wait(60)


class Patience:
    """A clock whose sleeps are only noted."""

    def __init__(self) -> None:
        self.slept_s: list[float] = []

    def monotonic_s(self) -> float:
        return sum(self.slept_s)

    def sleep_s(self, seconds: float) -> None:
        self.slept_s.append(seconds)

    def utc_now(self) -> str:
        return "2000-01-01T00:00:00+00:00"


def test_of_many_at_once_one_acts_and_the_others_find_what_it_has_done(tmp_path: Path) -> None:
    done: list[str] = []
    found: list[str] = []
    everybody, clock = threading.Barrier(4), UntilDone()

    def act() -> str:
        done.append(threading.current_thread().name)
        clock.is_done.set()
        return done[0]

    def take_part() -> None:
        everybody.wait()
        found.append(in_turn(tmp_path / "turn", lambda: done[0] if done else None, act, clock))

    threads = [threading.Thread(target=take_part) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(done) == 1
    assert found == done * 4


def test_who_has_waited_for_a_dead_one_acts_and_removes_its_mark(tmp_path: Path) -> None:
    mark, clock = tmp_path / "turn", Patience()
    mark.mkdir()

    assert in_turn(mark, lambda: None, lambda: "done", clock) == "done"

    assert clock.slept_s == list(PAUSES_S)
    assert not mark.exists()


def test_a_failure_gives_the_turn_back(tmp_path: Path) -> None:
    def fail() -> str:
        raise ValueError("no space")

    with pytest.raises(ValueError, match="no space"):
        in_turn(tmp_path / "turn", lambda: None, fail)

    assert in_turn(tmp_path / "turn", lambda: None, lambda: "done", Patience()) == "done"
