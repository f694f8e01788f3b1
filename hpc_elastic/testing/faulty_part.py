"""One place of a simulated record, as one agent reaches it: each operation may be lost on its way."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from hpc_elastic.backends.memory import MemoryBackend

if TYPE_CHECKING:
    from hpc_elastic.testing.faulty import FaultyBackend


class FaultyPart:
    """A backend. Lost requests leave nothing behind, lost replies do."""

    def __init__(self, record: FaultyBackend, memory: MemoryBackend, node: str, name: str) -> None:
        self._record = record
        self._memory = memory
        self._node = node
        self._name = name

    def create(self, key: str, value: bytes) -> bytes:
        self._record.before(self._name, self._node, writes=True)
        stored = self._memory.create(key, value)
        self._record.note(key)
        self._record.after(self._name)
        return stored

    def overwrite(self, key: str, value: bytes) -> None:
        self._record.before(self._name, self._node, writes=True)
        self._memory.overwrite(key, value)
        self._record.note(key)
        self._record.may_repeat(self._memory, key, value)
        self._record.after(self._name)

    def read(self, key: str) -> bytes | None:
        self._record.before(self._name, self._node, writes=False)
        found = self._past(key) if self._record.is_stale() else self._memory.read(key)
        self._record.after(self._name)
        return found

    def names(self, folder: str) -> frozenset[str]:
        self._record.before(self._name, self._node, writes=False)
        found = self._past_names(folder) if self._record.is_stale() else self._memory.names(folder)
        self._record.after(self._name)
        return found

    def remove(self, key: str) -> None:
        self._record.before(self._name, self._node, writes=True)
        self._memory.remove(key)
        self._record.after(self._name)

    def wait(self, timeout_s: float, wake: threading.Event) -> None:
        """Nothing waits in a simulation."""

    def close(self) -> None:
        """Nothing is held."""

    def _then_s(self) -> float:
        return self._record.now_s() - self._record.chance.uniform(0.0, self._record.faults.stale_s)

    def _past(self, key: str) -> bytes | None:
        """What a cache would have shown: the state of up to `stale_s` ago."""
        then_s = self._then_s()
        past = [value for at_s, value in self._record.history.get(key, ()) if at_s <= then_s]
        return past[-1] if past else None

    def _past_names(self, folder: str) -> frozenset[str]:
        then_s = self._then_s()
        found = [key.rpartition("/") for key, at_s in self._record.created_at_s.items() if at_s <= then_s]
        return frozenset(name for inside, _, name in found if inside == folder)
