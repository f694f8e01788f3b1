"""The reference store: one dictionary in one process, for tests and for a world of one node."""

from __future__ import annotations

import threading

from hpc_elastic.clock import SYSTEM_CLOCK, Clock
from hpc_elastic.stores.base import Change, Changed, Store
from hpc_elastic.stores.values import DEFAULT_TIMEOUT_S, Time


class MemoryStore(Store):
    """A store that threads share as one object, and that dies with the process."""

    def __init__(self, timeout: Time = DEFAULT_TIMEOUT_S, clock: Clock = SYSTEM_CLOCK) -> None:
        super().__init__(timeout, clock)
        self._values: dict[bytes, bytes] = {}
        self._news = threading.Condition()

    def read(self, key: bytes) -> bytes | None:
        with self._news:
            return self._values.get(key)

    def change(self, key: bytes, make: Change) -> Changed:
        with self._news:
            before = self._values.get(key)
            after = make(before)
            if after is None:
                self._values.pop(key, None)
            else:
                self._values[key] = after
            self._news.notify_all()
        return Changed(before, after)

    def rest(self, pause_s: float, waited_s: float) -> None:  # noqa: ARG002 - it is told of news
        with self._news:
            self._news.wait(pause_s)

    def num_keys(self) -> int:
        with self._news:
            return len(self._values)
