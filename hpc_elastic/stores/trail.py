"""The versions of each key of a record store: which is the newest, and which may be cleared away.

A slot that was read under the name the pointer or its successor gives it is called sound here: it is
one of the versions that count. See `records.py` for why that matters.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final, Protocol, TypeVar

from hpc_elastic.backends.base import Backend
from hpc_elastic.clock import Clock
from hpc_elastic.errors import BackendUnavailable
from hpc_elastic.stores.slots import NOTHING, Pointer, Slot

_LOOKS: Final = 200
_REST_S: Final = 0.001
_LONGEST_REST_S: Final = 0.1

T = TypeVar("T")


class Through(Protocol):
    """Goes on through outages for a bounded time."""

    def __call__(self, act: Callable[[], T]) -> T: ...


class Trail:
    """The records below `space` of a backend, by the names of their keys (`slots.name_of`)."""

    def __init__(self, backend: Backend, space: str, through: Through, clock: Clock) -> None:
        self._backend = backend
        self._space = space
        self._through = through
        self._clock = clock
        self._listed: frozenset[str] = frozenset()

    def look_around(self) -> None:
        """List the folder: on NFS this makes names visible that were missing a moment ago."""
        self._listed = self._through(lambda: self._backend.names(self._space))

    def newest(self, name: str) -> Slot:
        """The newest sound version; `NOTHING` where there is none."""
        rest_s = _REST_S
        for _ in range(_LOOKS):
            found = self._through(lambda: self._find(name))
            if found is not None:
                return found
            self._clock.sleep_s(rest_s)
            rest_s = min(rest_s * 1.3, _LONGEST_REST_S)
        raise BackendUnavailable(
            f"the versions of {self._key(name)} cannot be read although it has some; another host's cache of "
            "names is old, or somebody removes files there"
        )

    def create(self, name: str, slot: Slot) -> Slot:
        """The slot that stands under that version afterwards."""
        key = self._slot_key(name, slot.version)
        return Slot.decode(slot.version, self._backend.create(key, slot.encode()), key)

    def still_stands(self, name: str, slot: Slot) -> bool:
        """Whether a sound slot has not been cleared away, which proves that its successor has not either."""
        if slot.version == 0:
            pointer = self._through(lambda: self._pointer(name))
            return pointer is None or pointer.version == 0
        return self._through(lambda: self._stands(name, slot))

    def remove(self, name: str, version: int) -> None:
        """Take one slot away."""
        self._through(lambda: self._backend.remove(self._slot_key(name, version)))

    def point_at_first(self, name: str, first: Slot) -> None:
        """See to it that there is a pointer before there is a second version."""
        if self._through(lambda: self._pointer(name)) is None:
            self._write(name, Pointer(first.version, first.nonce, 0))

    def advance(self, name: str, slot: Slot, floor: int) -> None:
        """Clear away the versions up to `floor`, and point at `slot` unless a newer one is pointed at."""
        pointer = self._through(lambda: self._pointer(name)) or Pointer(0, NOTHING.nonce, 0)
        for version in range(pointer.floor + 1, floor + 1):
            self.remove(name, version)
        if pointer.version < slot.version:
            self._write(name, Pointer(slot.version, slot.nonce, max(floor, pointer.floor)))

    def _find(self, name: str) -> Slot | None:
        """The newest sound version, or None where everything is moving right now."""
        pointer = self._pointer(name)
        if pointer is None or pointer.version == 0:
            first = self._slot(name, 1)
            if first is None:
                return NOTHING
            return self._walk(name, first) if self._pointer(name) == pointer else None
        slot = self._slot(name, pointer.version)
        if slot is not None and slot.nonce == pointer.nonce:
            return self._walk(name, slot)
        return self._search(name, pointer)

    def _walk(self, name: str, slot: Slot) -> Slot | None:
        """From a sound slot to the newest."""
        while True:
            following = self._slot(name, slot.version + 1)
            if following is None:
                return slot
            if not self._stands(name, slot):
                return None
            slot = following

    def _search(self, name: str, pointer: Pointer) -> Slot | None:
        """The version that is pointed at cannot be seen: the pointer is old, or a cache is."""
        versions = self._versions(name)
        if self._pointer(name) != pointer:
            return None
        top = max(versions, default=0)
        if top <= pointer.version:
            return self._insist(name, pointer)
        slot = self._slot(name, top)
        if slot is None or max(self._versions(name), default=0) != top or self._pointer(name) != pointer:
            return None
        self._write(name, Pointer(slot.version, slot.nonce, pointer.floor))
        return self._walk(name, slot)

    def _insist(self, name: str, pointer: Pointer) -> Slot | None:
        """Read a slot past all caches: an exclusive create is answered by the server itself."""
        slot = self._slot(name, pointer.version)
        if slot is None:
            void = Slot(pointer.version, os.urandom(8).hex(), None, is_void=True)
            slot = self.create(name, void)
            if slot == void:
                self.remove(name, void.version)
        return self._walk(name, slot) if slot.nonce == pointer.nonce else None

    def _versions(self, name: str) -> list[int]:
        found = (one.rpartition(".") for one in self._backend.names(self._space))
        return [int(version) for owner, _, version in found if owner == name and version.isdecimal()]

    def _stands(self, name: str, slot: Slot) -> bool:
        found = self._slot(name, slot.version)
        return found is not None and found.nonce == slot.nonce

    def _slot(self, name: str, version: int) -> Slot | None:
        key = self._slot_key(name, version)
        raw = self._backend.read(key)
        slot = Slot.decode(version, raw, key) if raw is not None else None
        return None if slot is None or slot.is_void else slot

    def _pointer(self, name: str) -> Pointer | None:
        key = self._key(name)
        raw = self._backend.read(key)
        if raw is None and name in self._listed:
            # The folder has it, so this host remembers a missing name: ask past its cache.
            raw = self._backend.create(key, Pointer(0, NOTHING.nonce, 0).encode())
        return Pointer.decode(raw, key) if raw is not None else None

    def _write(self, name: str, pointer: Pointer) -> None:
        self._through(lambda: self._backend.overwrite(self._key(name), pointer.encode()))

    def _key(self, name: str) -> str:
        return f"{self._space}/{name}"

    def _slot_key(self, name: str, version: int) -> str:
        return f"{self._space}/{name}.{version}"
