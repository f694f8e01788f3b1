"""A store over any backend, by its exclusive create alone: no lock is needed for safety.

Each change of a key creates the next version of it, `<key>.<version>`, exclusively; then it overwrites
the pointer `<key>`, which says where the newest version is. A few versions are kept, older ones are
removed in rising order. What makes this sound where a writer may be stopped for any time:

- A version that is there, and was written by whom the pointer or its successor names, proves that no
  later version has ever been removed. So whoever creates version v looks at v - 1 once more: if that
  stands as before, v was free for the first time, and the change counts.
- If not, v may have been in use and removed long ago. Then the newest version says whether the change
  counts: each names the last changes of the 256 writers before it. One that does not count is taken
  back and made anew.
- The pointer only ever names changes that count. It may fall behind, when a writer is stopped just
  before it writes it; readers walk on from there, and look around when the way is gone.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Final

from hpc_elastic.backends.base import Backend
from hpc_elastic.clock import SYSTEM_CLOCK, Clock
from hpc_elastic.errors import BackendUnavailable, StoreOutcomeUnknown
from hpc_elastic.stores.base import Change, Changed, Store
from hpc_elastic.stores.slots import REMEMBERED, Slot, name_of
from hpc_elastic.stores.trail import Trail
from hpc_elastic.stores.values import DEFAULT_TIMEOUT_S, Time, shown

KEPT: Final = 4
_LOOK_AROUND_AFTER_S: Final = 1.0
_LOOK_AROUND_EVERY_S: Final = 2.0
_LONGEST_YIELD_S: Final = 0.02


class RecordStore(Store):
    """The store in the folder `space` of a backend, say `stores/3`."""

    def __init__(
        self,
        backend: Backend,
        space: str,
        timeout: Time = DEFAULT_TIMEOUT_S,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        super().__init__(timeout, clock)
        self.backend = backend
        self.space = space
        self._trail = Trail(backend, space, self._through, clock)
        self._writer = os.urandom(5).hex()
        self._count = 0
        self._lock = threading.Lock()
        self._looked_around_s = 0.0

    def courtesy(self, name: str) -> AbstractContextManager[object]:  # noqa: ARG002 - see FileStore
        """Keeps writers of one key out of each other's way where that is cheap; nothing depends on it."""
        return nullcontext()

    def read(self, key: bytes) -> bytes | None:
        return self._trail.newest(name_of(key)).value

    def change(self, key: bytes, make: Change) -> Changed:
        name = name_of(key)
        with self._lock:
            for turn in self._turns(name):
                with turn:
                    made = self._attempt(key, name, make)
                if made is not None:
                    return made
        raise StoreOutcomeUnknown(f"key {shown(key)}: no turn to change it")  # turns never end

    def num_keys(self) -> int:
        names = self._through(lambda: self.backend.names(self.space))
        return sum(self._trail.newest(name).value is not None for name in names if "." not in name)

    def rest(self, pause_s: float, waited_s: float) -> None:
        """Rests; a long wait lists the folder now and then.

        An NFS client keeps a missing name in mind for up to a minute. Opening the folder makes it ask
        the server (close-to-open consistency), and so do the reads of names after that.
        """
        super().rest(pause_s, waited_s)
        if waited_s - self._looked_around_s >= _LOOK_AROUND_EVERY_S or waited_s < self._looked_around_s:
            self._looked_around_s = waited_s
            if waited_s >= _LOOK_AROUND_AFTER_S:
                self._trail.look_around()

    def _turns(self, name: str) -> Iterator[AbstractContextManager[object]]:
        """The first turn is for free; whoever was in somebody's way is polite from then on."""
        yield nullcontext()
        pause_s = 0.0005
        while True:
            yield self.courtesy(name)
            pause_s = min(pause_s * 2, _LONGEST_YIELD_S)
            self._clock.sleep_s(pause_s * (1 + os.urandom(1)[0] / 128))

    def _attempt(self, key: bytes, name: str, make: Change) -> Changed | None:
        """The change, if it could be made on top of what was the newest version; else None."""
        newest = self._trail.newest(name)
        wanted = make(newest.value)
        if wanted == newest.value:
            return Changed(newest.value, wanted)
        self._count += 1
        mine = newest.followed_by(f"{self._writer}.{self._count:x}", wanted)
        if newest.version == 1:
            self._trail.point_at_first(name, newest)
        if not self._create(key, name, newest, mine):
            return None
        self._trail.advance(name, mine, max(0, mine.version - KEPT))
        return Changed(newest.value, wanted)

    def _create(self, key: bytes, name: str, newest: Slot, mine: Slot) -> bool:
        """Whether `mine` is the one version behind `newest`."""

        def create() -> bool:
            try:
                stored = self._trail.create(name, mine)
            except BackendUnavailable:
                if self._trail.newest(name).version < mine.version:
                    raise
                return self._was_counted(key, name, mine)
            return stored.nonce == mine.nonce and self._is_sound(key, name, newest, mine)

        return self._through(create)

    def _is_sound(self, key: bytes, name: str, newest: Slot, mine: Slot) -> bool:
        if self._trail.still_stands(name, newest):
            return True
        counts = self._was_counted(key, name, mine)
        if not counts or self._trail.newest(name).version - mine.version >= KEPT:
            self._trail.remove(name, mine.version)
        return counts

    def _was_counted(self, key: bytes, name: str, mine: Slot) -> bool:
        """Whether a change of unknown outcome is one of those that the newest version goes back to."""
        counts = self._trail.newest(name).includes(mine.nonce)
        if counts is None:
            raise StoreOutcomeUnknown(
                f"key {shown(key)}: this process was held up while {REMEMBERED} others changed the key, and "
                "nobody can tell whether its own change was the first of them; read the key and decide"
            )
        return counts
