"""Many presences read one after the other: the second read fetches all, and answers those that follow."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Final

# Reads that follow each other this closely are one look at many; what was fetched for it serves that look.
_NEXT_S: Final = 0.005
_LOOK_S: Final = 0.02


class ReadAhead:
    """Values of one folder, read one by one by its callers. Each is at most 20 ms old.

    A key that is read again is always asked for again.
    """

    def __init__(
        self,
        one: Callable[[bytes], bytes | None],
        all_of_them: Callable[[], Mapping[bytes, bytes]],
        now_s: Callable[[], float],
    ) -> None:
        self._one = one
        self._all_of_them = all_of_them
        self._now_s = now_s
        self._values: Mapping[bytes, bytes] = {}
        self._given: set[bytes] = set()
        self._fetched_at_s = float("-inf")
        self._read_at_s = float("-inf")
        self._lock = threading.Lock()

    def read(self, key: bytes) -> bytes | None:
        """The value under `key`, or None."""
        with self._lock:
            now_s = self._now_s()
            if now_s - self._fetched_at_s <= _LOOK_S and key not in self._given:
                self._given.add(key)
                return self._values.get(key)
            follows = now_s - self._read_at_s <= _NEXT_S
        value = self._fetch(key) if follows else self._one(key)
        with self._lock:
            self._read_at_s = self._now_s()
        return value

    def _fetch(self, key: bytes) -> bytes | None:
        asked_at_s = self._now_s()
        values = self._all_of_them()
        with self._lock:
            self._values, self._given, self._fetched_at_s = values, {key}, asked_at_s
        return values.get(key)
