"""Time as an argument: the one place that reads the machine's clocks."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime, timezone
from typing import Final, Protocol

SLICES: Final = 8


class Clock(Protocol):
    """What the drivers need of time. Durations come from `monotonic_s` only."""

    def monotonic_s(self) -> float:
        """Seconds since an origin of this machine's own; never compared between machines."""
        ...

    def sleep_s(self, seconds: float) -> None:
        """Wait."""
        ...

    def utc_now(self) -> str:
        """Wall time as ISO 8601 with seconds, for people to read; no decision uses it."""
        ...


class SystemClock:
    """The machine's clocks."""

    def monotonic_s(self) -> float:
        return time.monotonic()

    def sleep_s(self, seconds: float) -> None:
        time.sleep(seconds)

    def utc_now(self) -> str:
        return datetime.now(timezone.utc).isoformat(timespec="milliseconds")


SYSTEM_CLOCK = SystemClock()


def wait_in_slices(wait: Callable[[float], object], is_over: Callable[[], bool], timeout_s: float) -> bool:
    """Whether it `is_over` within `timeout_s`; `wait` waits for that, for so many seconds at most.

    A machine that stands still meanwhile costs one slice of the time: what is waited for stood still as well.
    """
    for _ in range(SLICES):
        if is_over():
            return True
        wait(timeout_s / SLICES)
    return is_over()
