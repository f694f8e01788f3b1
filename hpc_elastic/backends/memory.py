"""The reference backend: one dictionary in one process, for tests and simulations."""

from __future__ import annotations

import threading

from hpc_elastic.backends.base import check_key


class MemoryBackend:
    """A backend whose record dies with the process. Safe between threads."""

    def __init__(self) -> None:
        self._values: dict[str, bytes] = {}
        self._lock = threading.Lock()
        self._waiting: set[threading.Event] = set()

    def create(self, key: str, value: bytes) -> bytes:
        check_key(key)
        with self._lock:
            stored = self._values.setdefault(key, value)
            self._tell()
        return stored

    def overwrite(self, key: str, value: bytes) -> None:
        check_key(key)
        with self._lock:
            self._values[key] = value
            self._tell()

    def read(self, key: str) -> bytes | None:
        check_key(key)
        with self._lock:
            return self._values.get(key)

    def names(self, folder: str) -> frozenset[str]:
        prefix = check_key(folder) + "/"
        with self._lock:
            inside = [key.removeprefix(prefix) for key in self._values if key.startswith(prefix)]
        return frozenset(rest for rest in inside if "/" not in rest)

    def remove(self, key: str) -> None:
        prefix = check_key(key) + "/"
        with self._lock:
            for name in [name for name in self._values if name == key or name.startswith(prefix)]:
                del self._values[name]
            self._tell()

    def wait(self, timeout_s: float, wake: threading.Event) -> None:
        with self._lock:
            self._waiting.add(wake)
        wake.wait(timeout_s)
        with self._lock:
            self._waiting.discard(wake)

    def close(self) -> None:
        """Nothing is held."""

    def _tell(self) -> None:
        for wake in self._waiting:
            wake.set()
