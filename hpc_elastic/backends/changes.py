"""Tells threads that wait for a change, without losing one that comes while they look."""

from __future__ import annotations

import threading
from typing import Final

from hpc_elastic.clock import SYSTEM_CLOCK, Clock

# Whoever has looked rests for three times as long, so that a burst of changes, as when many agents
# begin at once, is looked at a few times and not once for each: with 32 agents on two cores the looks
# at a burst took longer than the burst.
_REST: Final = 3.0
_LONGEST_REST_S: Final = 0.05


class Changes:
    """Counted changes: whoever waits returns when there was one since it last returned."""

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._count = 0
        self._seen = 0
        self._returned_at_s: float | None = None
        self._waiting: set[threading.Event] = set()
        self._lock = threading.Lock()

    def note(self) -> None:
        """There was one."""
        with self._lock:
            self._count += 1
            for wake in self._waiting:
                wake.set()

    def wait(self, timeout_s: float, wake: threading.Event) -> None:
        """Return at a change, when `wake` is set, at the latest after `timeout_s`, or a rest of 50 ms."""
        wake.wait(self._rest_s())
        with self._lock:
            if self._count == self._seen:
                self._waiting.add(wake)
        if wake in self._waiting:
            wake.wait(timeout_s)
        with self._lock:
            self._waiting.discard(wake)
            self._seen = self._count
        self._returned_at_s = self._clock.monotonic_s()

    def _rest_s(self) -> float:
        if self._returned_at_s is None:
            return 0.0
        looked_s = self._clock.monotonic_s() - self._returned_at_s
        return min(_LONGEST_REST_S, _REST * looked_s)
