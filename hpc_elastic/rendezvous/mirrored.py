"""A record whose live part lies elsewhere, and whose ledger lies in the run directory all the same.

`attempts/*` are decided by the ledger and shown in the live part, but for the seats, which nobody
reads. `rounds/*` are decided by the live part, where everybody waits for them, and copied to the ledger
by whoever makes them; what a writer that died in between has left out is copied by whoever makes the
next round. Stores and the beats of presences are in the live part alone; a presence is copied when it
says something else than before, at once when it is about an end. So `status` and the requeue decision
need nothing but the run directory, and budgets, numbers and seats go on from it when the live part has
been lost.
"""

from __future__ import annotations

import threading
from typing import Final

from hpc_elastic.backends.base import Backend
from hpc_elastic.errors import RecordCorrupt
from hpc_elastic.rendezvous import keys
from hpc_elastic.rendezvous.codec import decode_as
from hpc_elastic.rendezvous.record import NodeState, Presence
from hpc_elastic.values import replace

_ENDS: Final = {NodeState.DONE, NodeState.DRAINING, NodeState.LEFT}
_ROUNDS_REBUILT: Final = 2


class MirroredBackend:
    """A backend of two: `live`, where the agents of an attempt meet, and `ledger`, which stays.

    A failure of either is a failure of the operation, which may be tried again.
    """

    def __init__(self, live: Backend, ledger: Backend) -> None:
        self.live = live
        self.ledger = ledger
        self._last: Presence | None = None
        self._kept: Presence | None = None

    @classmethod
    def open(cls, live: Backend, ledger: Backend) -> MirroredBackend:
        """Both parts, each completed from the other.

        Live parts vanish with the last agent, and a writer may have died between the two.
        """
        opened = cls(live, ledger)
        opened._rebuild()
        return opened

    def create(self, key: str, value: bytes) -> bytes:
        if _is_seat(key):
            # A claim counts for as long as its attempt; counted from 0 again it would lose to older ones.
            return self.ledger.create(key, value)
        if _is_of_an_attempt(key):
            stored = self.ledger.create(key, value)
            self.live.create(key, stored)
            return stored
        if not key.startswith(f"{keys.ROUNDS}/"):
            return self.live.create(key, value)
        known = self.ledger.read(key)
        stored = self.live.create(key, value if known is None else known)
        if known is None:
            if key.removeprefix(f"{keys.ROUNDS}/").isdecimal():
                self._complete_ledger(keys.ROUNDS)
            self.ledger.create(key, stored)
        return stored

    def overwrite(self, key: str, value: bytes) -> None:
        self.live.overwrite(key, value)
        if key == keys.BELL:
            self.ledger.overwrite(key, value)
        elif key.startswith(f"{keys.NODES}/"):
            self._keep_presence(key, value)

    def read(self, key: str) -> bytes | None:
        value = self.live.read(key)
        if value is None and _is_copied(key):
            # The next attempt may have gone to another live part, and this one has to hear of it; an
            # agent that stood still until its live part had vanished has to hear how the run went on.
            return self.ledger.read(key)
        return value

    def names(self, folder: str) -> frozenset[str]:
        if folder == keys.ATTEMPTS:
            return self.live.names(folder) | self.ledger.names(folder)
        return self.live.names(folder)

    def remove(self, key: str) -> None:
        self.live.remove(key)
        self.ledger.remove(key)

    def wait(self, timeout_s: float, wake: threading.Event) -> None:
        self.live.wait(timeout_s, wake)

    def close(self) -> None:
        self.live.close()
        self.ledger.close()

    def _keep_presence(self, key: str, value: bytes) -> None:
        """Copy what a node says of itself, but not while others wait for it, and not its beats."""
        try:
            said = replace(decode_as(value, Presence, key=key), beat=0)
        except RecordCorrupt:
            return  # not a presence: nothing that a ledger keeps
        is_settled = said == self._last or said.state in _ENDS
        self._last = said
        if is_settled and said != self._kept:
            self.ledger.overwrite(key, value)
            self._kept = said

    def _complete_ledger(self, folder: str) -> None:
        for name in self.live.names(folder) - self.ledger.names(folder):
            key = f"{folder}/{name}"
            value = self.live.read(key)
            if value is not None and not _is_seat(key):
                self.ledger.create(key, value)

    def _rebuild(self) -> None:
        for folder in (keys.ATTEMPTS, keys.ROUNDS):
            kept, there = self.ledger.names(folder), self.live.names(folder)
            wanted = kept if folder == keys.ATTEMPTS else _newest(kept | there)
            for name in sorted(kept & wanted - there):
                key = f"{folder}/{name}"
                if _is_seat(key):
                    continue
                value = self.ledger.read(key)
                if value is not None:
                    self.live.create(key, value)
            if not kept >= there:
                self._complete_ledger(folder)


def _is_of_an_attempt(key: str) -> bool:
    return key.startswith(f"{keys.ATTEMPTS}/") and not _is_seat(key)


def _is_copied(key: str) -> bool:
    if key == keys.BELL or key.startswith(f"{keys.ROUNDS}/"):
        return True
    return key.startswith(f"{keys.ATTEMPTS}/") and key.removeprefix(f"{keys.ATTEMPTS}/").isdecimal()


def _is_seat(key: str) -> bool:
    return key.startswith(f"{keys.ATTEMPTS}/") and ".seat." in key


def _newest(names: frozenset[str]) -> frozenset[str]:
    """The names of the newest rounds and of all that belongs to them: older ones are never looked at."""
    newest = {str(number) for number in keys.numbers(names)[-_ROUNDS_REBUILT:]}
    return frozenset(name for name in names if name.partition(".")[0] in newest)
