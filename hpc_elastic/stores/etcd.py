"""The store in etcd, v3 or v2: one key for each key, changed by compare and swap.

A value is kept as a slot (`slots.py`), which names the last change of each writer: so a writer whose
reply was lost finds out whether its change counts, and does not add twice.
"""

from __future__ import annotations

import os
import threading
from typing import Final, Protocol

from hpc_elastic.backends.base import Backend
from hpc_elastic.backends.changes import Changes
from hpc_elastic.backends.etcd_v3 import EtcdV3Backend
from hpc_elastic.backends.etcd_watch import EtcdWatch
from hpc_elastic.clock import SYSTEM_CLOCK, Clock
from hpc_elastic.errors import BackendUnavailable, StoreOutcomeUnknown
from hpc_elastic.stores.base import Change, Changed, Store
from hpc_elastic.stores.slots import NOTHING, REMEMBERED, Slot, name_of
from hpc_elastic.stores.values import DEFAULT_TIMEOUT_S, Time, shown

# Shorter waits are over before a watch would be open.
_WATCH_AFTER_S: Final = 0.2
_WATCHED_LOOK_S: Final = 1.0
_FIRST_YIELD_S: Final = 0.001
_LONGEST_YIELD_S: Final = 0.05


class SwappingBackend(Backend, Protocol):
    """What the backends of etcd v3 and v2 give beyond those of all others."""

    def read_versioned(self, key: str) -> tuple[bytes | None, int]:
        """The value under `key`, and a number that is another for each change of it."""
        ...

    def swap(self, key: str, version: int, value: bytes) -> bool:
        """Replace what was read with `version`; False where something else stands by now."""
        ...


class EtcdStore(Store):
    """The store in the folder `space` of an etcd backend, say `stores/3`. Each `get` reads one key."""

    def __init__(
        self,
        backend: SwappingBackend,
        space: str,
        timeout: Time = DEFAULT_TIMEOUT_S,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        super().__init__(timeout, clock)
        self.backend = backend
        self.space = space
        self._writer = os.urandom(5).hex()
        self._count = 0
        self._lock = threading.Lock()
        self._changes = Changes()
        self._watch: EtcdWatch | None = None

    def read(self, key: bytes) -> bytes | None:
        return self._newest(key)[0].value

    def change(self, key: bytes, make: Change) -> Changed:
        pause_s = _FIRST_YIELD_S
        with self._lock:
            while True:
                slot, version = self._newest(key)
                wanted = make(slot.value)
                if wanted == slot.value or self._swap(key, version, self._following(slot, wanted)):
                    return Changed(slot.value, wanted)
                self._clock.sleep_s(pause_s * (0.5 + os.urandom(1)[0] / 256))
                pause_s = min(pause_s * 2, _LONGEST_YIELD_S)

    def num_keys(self) -> int:
        names = self._through(lambda: self.backend.names(self.space))
        return sum(self._slot(name)[0].value is not None for name in names)

    def rest(self, pause_s: float, waited_s: float) -> None:
        """Rests until etcd tells of a change, where it can."""
        if waited_s < _WATCH_AFTER_S or not isinstance(self.backend, EtcdV3Backend):
            super().rest(pause_s, waited_s)
            return
        with self._lock:
            if self._watch is None:
                self._watch = self.backend.watch(self.space, self._changes.note)
        # The watch is a hint that may be lost, so looks go on.
        self._changes.wait(max(pause_s, _WATCHED_LOOK_S), threading.Event())

    def close(self) -> None:
        if self._watch is not None:
            self._watch.close()

    def _newest(self, key: bytes) -> tuple[Slot, int]:
        return self._slot(name_of(key))

    def _slot(self, name: str) -> tuple[Slot, int]:
        full = f"{self.space}/{name}"
        raw, version = self._through(lambda: self.backend.read_versioned(full))
        return (NOTHING if raw is None else Slot.decode(version, raw, full)), version

    def _following(self, slot: Slot, value: bytes | None) -> Slot:
        self._count += 1
        return slot.followed_by(f"{self._writer}.{self._count:x}", value)

    def _swap(self, key: bytes, version: int, mine: Slot) -> bool:
        """Whether `mine` has replaced what was read with `version`."""
        full, value = f"{self.space}/{name_of(key)}", mine.encode()

        def swap() -> bool:
            try:
                done = self.backend.swap(full, version, value)
            except BackendUnavailable:
                if self._newest(key)[1] == version:
                    raise
                done = False
            # python-etcd and urllib3 repeat a request whose reply was lost: then the first one counts.
            return done or self._was_counted(key, mine)

        return self._through(swap)

    def _was_counted(self, key: bytes, mine: Slot) -> bool:
        counts = self._newest(key)[0].includes(mine.nonce)
        if counts is None:
            raise StoreOutcomeUnknown(
                f"key {shown(key)}: a reply was lost while {REMEMBERED} others changed the key, and nobody "
                "can tell whether the change was the first of them; read the key and decide"
            )
        return counts
