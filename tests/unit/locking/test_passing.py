"""Errors that may pass are met with another try, others and lasting ones are raised."""

from __future__ import annotations

import errno
import os

import pytest

from hpc_elastic.locking.passing import persist


class Quick:
    """A clock whose sleeps take no time, and are noted."""

    def __init__(self) -> None:
        self.slept_s: list[float] = []

    def monotonic_s(self) -> float:
        return sum(self.slept_s)

    def sleep_s(self, seconds: float) -> None:
        self.slept_s.append(seconds)

    def utc_now(self) -> str:
        return "2000-01-01T00:00:00+00:00"


class Failing:
    """Raises as often as it is told, then answers."""

    def __init__(self, number: int, times: int) -> None:
        self.number, self.times, self.calls = number, times, 0

    def __call__(self) -> str:
        self.calls += 1
        if self.calls <= self.times:
            raise OSError(self.number, os.strerror(self.number))
        return "done"


@pytest.mark.parametrize("number", [errno.EIO, errno.ESTALE, errno.ENOSPC, errno.EDQUOT])
def test_an_error_that_passes_is_waited_out(number: int) -> None:
    clock = Quick()

    assert persist(Failing(number, 3), clock) == "done"
    assert clock.slept_s == sorted(clock.slept_s)


def test_an_error_that_lasts_is_raised_after_two_seconds() -> None:
    clock, act = Quick(), Failing(errno.EIO, 100)

    with pytest.raises(OSError, match="Input/output"):
        persist(act, clock)
    assert act.calls == 8
    assert 1.0 < sum(clock.slept_s) <= 2.0


def test_an_answer_that_will_not_change_is_raised_at_once() -> None:
    act = Failing(errno.EACCES, 100)

    with pytest.raises(PermissionError):
        persist(act, Quick())
    assert act.calls == 1
