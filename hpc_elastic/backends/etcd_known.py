"""What a snapshot and then a watch have made known, so that looking at what has not changed asks nobody."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Final

from hpc_elastic.values import dataclass

# Looks that follow a snapshot this closely are one look at what is there, as long as each is another one.
_LOOK_S: Final = 0.25


@dataclass(frozen=True)
class Known:
    """A key at a revision: its value, None where there is nothing; not `is_read`: there is some value."""

    revision: int
    value: bytes | None
    is_read: bool = True


_NOTHING: Final = Known(0, None)
_UNKNOWN: Final = Known(0, None, is_read=False)


class KnownValues:
    """Values of keys that begin with one of `watched`, the bell for example; for one look also of `others`.

    They are known as a snapshot has shown them, or as they were read once, and then as the watch tells of
    them. Without a snapshot a key that was never read is unknown; after one it is known not to be there.
    Before there is a watch a snapshot answers each question once: who asks again wants to know it anew.

    Nothing is known while the watch is broken, or while it has not told yet of this agent's own
    last write: so a watch that stands still without breaking is noticed with the next beat.
    """

    def __init__(
        self, watched: tuple[bytes, ...], others: tuple[bytes, ...], now_s: Callable[[], float]
    ) -> None:
        self.snapshot_revision = 0
        self._watched = watched
        self._looked_at = watched + others
        self._given: set[bytes] = set()
        self._now_s = now_s
        self._values: dict[bytes, Known] = {}
        self._is_whole = False
        self._looked_at_s = float("-inf")
        self._since: int | None = None
        self._written = 0
        self._echoed = 0
        self._lock = threading.Lock()

    def take_snapshot(self, revision: int, found: Iterable[tuple[bytes, Known]], asked_at_s: float) -> None:
        """All that there was at `revision`, before a watch that begins behind it."""
        with self._lock:
            if self._since is not None:
                return
            newer = {key: known for key, known in self._values.items() if known.revision > revision}
            self._values = {**dict(found), **newer}
            self._is_whole, self._looked_at_s = True, asked_at_s
            self.snapshot_revision = revision

    def begin(self, revision: int, *, is_continued: bool) -> None:
        """From `revision` on the watch tells everything; all that was known stays so if it continues."""
        with self._lock:
            if not is_continued:
                self._values.clear()
                self._is_whole = False
            self._looked_at_s = float("-inf")
            self._since = revision
            self._echoed = max(self._echoed, 0 if is_continued else revision)

    def end(self) -> None:
        """The watch is broken."""
        with self._lock:
            self._since = None

    def told(self, key: bytes, revision: int, value: bytes | None) -> None:
        """The watch says that `key` was changed; None: removed. Or this agent itself has changed it."""
        with self._lock:
            if revision >= self._values.get(key, _NOTHING).revision:
                self._values[key] = Known(revision, value)

    def echo(self, revision: int) -> None:
        """The watch has told of this agent's own write."""
        with self._lock:
            self._echoed = max(self._echoed, revision)

    def wrote(self, revision: int) -> None:
        """This agent's own write was acknowledged, and the watch has to tell of it."""
        with self._lock:
            self._written = max(self._written, revision)

    def was_read(self, key: bytes, revision: int, value: bytes | None) -> None:
        """`key` was read from a store at `revision`."""
        with self._lock:
            before = self._values.get(key, _NOTHING)
            if self._since is not None and revision >= max(self._since, before.revision):
                self._values[key] = Known(revision, value)

    def forget(self, key: bytes) -> None:
        """`key`, and what is below it, is going to be removed: by when, only the watch can tell."""
        with self._lock:
            self._looked_at_s = float("-inf")
            below = key + b"/"
            gone = [one for one in self._values if one == key or one.startswith(below)]
            for one in gone:
                self._values[one] = Known(self._values[one].revision, None, is_read=False)

    def look_up(self, key: bytes) -> tuple[bool, bytes | None]:
        """Whether the present value is known, and the value."""
        with self._lock:
            if not self._is_fresh(key):
                return False, None
            found = self._values.get(key, _NOTHING if self._is_whole else _UNKNOWN)
            return found.is_read, found.value if found.is_read else None

    def names(self, folder: bytes) -> frozenset[bytes] | None:
        """What follows `folder` in the keys that are there; None where that is not known."""
        with self._lock:
            if not self._is_whole or not self._is_fresh(folder):
                return None
            there = [
                key for key, known in self._values.items() if known.value is not None or not known.is_read
            ]
            return frozenset(key[len(folder) :] for key in there if key.startswith(folder))

    def _is_fresh(self, key: bytes) -> bool:
        if self._since is not None:
            return self._echoed >= self._written and key.startswith(self._watched)
        if key in self._given or not key.startswith(self._looked_at):
            return False
        self._given.add(key)
        return self._now_s() - self._looked_at_s <= _LOOK_S
