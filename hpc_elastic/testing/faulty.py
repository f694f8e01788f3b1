"""A record in memory whose answers go wrong on purpose; every accepted write is checked."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from hpc_elastic.backends.base import Backend
from hpc_elastic.backends.memory import MemoryBackend
from hpc_elastic.errors import BackendUnavailable
from hpc_elastic.rendezvous import keys
from hpc_elastic.rendezvous.codec import decode
from hpc_elastic.rendezvous.invariants import violations
from hpc_elastic.rendezvous.mirrored import MirroredBackend
from hpc_elastic.rendezvous.operations import Operation, Read, perform
from hpc_elastic.rendezvous.record import Bell, Record
from hpc_elastic.testing.faulty_part import FaultyPart
from hpc_elastic.testing.simulated_setting import Faults, Setting

_LIVE = "live part"
_DIRECTORY = "directory"


class FaultyBackend:
    """The record of a simulated run, in one part or, as with etcd, in two.

    `ledger` holds, decoded, the last that was written under each key, also when a fault has made
    it vanish since; `broken` every broken invariant.
    """

    def __init__(self, chance: Random, setting: Setting, now_s: Callable[[], float]) -> None:
        self.chance = chance
        self.now_s = now_s
        self.faults: Faults = setting.faults
        self.directory = MemoryBackend()
        self.live = MemoryBackend() if setting.has_live_part else self.directory
        self.ledger: dict[str, Record] = {}
        self.created_at_s: dict[str, float] = {}
        self.announced_at_s: dict[str, float] = {}
        self.history: dict[str, list[tuple[float, bytes]]] = {}
        self.broken: list[str] = []
        self.on_write: Callable[[str, Record], None] = lambda _key, _record: None
        self._settings = setting.settings
        self._operation_s = setting.operation_s
        self._raw: dict[str, bytes] = {}
        self._spells: dict[tuple[str, str], float] = {}
        self._late: list[tuple[float, MemoryBackend, str, bytes]] = []

    def reach(self, node: str) -> Connection:
        """The record as one agent reaches it."""
        directory = FaultyPart(self, self.directory, node, _DIRECTORY)
        if self.live is self.directory:
            return Connection(self, directory)
        MirroredBackend.open(self.live, self.directory)  # as an agent does that opens both
        return Connection(self, MirroredBackend(FaultyPart(self, self.live, node, _LIVE), directory))

    def plant(self, key: str, record: Record, value: bytes) -> None:
        """Put a record there from outside, without faults."""
        self.live.create(key, value)
        self.directory.create(key, value)
        self.note(key)
        self.ledger[key] = record

    def bell(self) -> Bell | None:
        """What the bell says at this moment."""
        raw = self.live.read(keys.BELL)
        found = decode(raw) if raw is not None else None
        return found if isinstance(found, Bell) else None

    def begin(self, kind: str, node: str, seconds: float) -> None:
        """A spell of trouble begins, for one node or for all ("")."""
        if kind == "lease_lost":
            self._lose_live_part()
            return
        self._spells[kind, node] = self.now_s() + seconds

    def _lose_live_part(self) -> None:
        """Everything in it vanishes, while its copy is complete: no run survives the loss of both."""
        folder = keys.ROUNDS
        if self.live.names(folder) <= self.directory.names(folder):
            for key in (keys.NODES, keys.ROUNDS, keys.ATTEMPTS, keys.BELL):
                self.live.remove(key)

    def end_spells(self) -> None:
        self._spells.clear()

    def is_under(self, kind: str, node: str = "") -> bool:
        """Whether a spell lasts."""
        return bool(self._spells) and self._spells.get((kind, node), 0.0) > self.now_s()

    def delay_s(self) -> float:
        """How long an operation takes."""
        if self.is_under("slow_disk"):
            return self.chance.uniform(0.05, 1.5)
        return self.chance.uniform(0.02, 1.0) * self._operation_s

    def before(self, part: str, node: str, *, writes: bool) -> None:
        """What comes before an operation, unless it is lost on the way."""
        if self._late:
            self._deliver_late()
        if self._happens(self.faults.lost_request):
            raise BackendUnavailable("lost request")
        if not self._spells:
            return
        if part == _DIRECTORY and self.is_under("stale_handle", node):
            raise BackendUnavailable("stale file handle (ESTALE)")
        if part == _DIRECTORY and writes and self.is_under("disk_full"):
            raise BackendUnavailable("no space left on device (ENOSPC)")
        if part == _LIVE and self.is_under("etcd_leader_change") and self.chance.random() < 0.5:
            raise BackendUnavailable("etcdserver: leader changed")

    def after(self, part: str) -> None:
        """What comes after an operation that was carried out: its reply may be lost."""
        if self._happens(self.faults.lost_reply):
            raise BackendUnavailable("lost reply")
        if self._spells and part == _LIVE and self.is_under("etcd_leader_change"):
            raise BackendUnavailable("etcdserver: request timed out, possibly due to previous leader failure")

    def may_repeat(self, memory: MemoryBackend, key: str, value: bytes) -> None:
        """An overwrite may arrive a second time, when it is no longer expected."""
        if self._happens(self.faults.duplicate):
            self._late.append((self.now_s() + self.chance.uniform(0.0, 2.0), memory, key, value))

    def is_stale(self) -> bool:
        """Whether a read shows the past this time."""
        return self._happens(self.faults.stale_read)

    def note(self, key: str) -> None:
        """Something has been written under `key`, in a part that decides what stands there."""
        raw = self._part_of(key).read(key)
        if raw is None or raw == self._raw.get(key):
            return
        record = decode(raw)
        self.broken += violations(key, record, self.ledger, self._settings)
        now_s = self.now_s()
        self._raw[key], self.ledger[key] = raw, record
        self.created_at_s.setdefault(key, now_s)
        if self.faults.stale_read:
            self.history.setdefault(key, []).append((now_s, raw))
        if isinstance(record, Bell):
            for name in (*record.known, keys.attempt_key(record.attempt), keys.round_key(record.round)):
                self.announced_at_s.setdefault(name, now_s)
        self.on_write(key, record)

    def _part_of(self, key: str) -> MemoryBackend:
        return self.directory if key.startswith(f"{keys.ATTEMPTS}/") else self.live

    def _deliver_late(self) -> None:
        due = [entry for entry in self._late if entry[0] <= self.now_s()]
        for entry in due:
            self._late.remove(entry)
            _, memory, key, value = entry
            if memory.read(key) is not None:
                memory.overwrite(key, value)

    def _happens(self, probability: float) -> bool:
        return probability > 0 and self.chance.random() < probability


class Connection:
    """One agent's way to the record, with what its client remembers."""

    def __init__(self, record: FaultyBackend, backend: Backend) -> None:
        self._record = record
        self._backend = backend
        self._missing: dict[str, float] = {}

    def answer(self, operation: Operation) -> object:
        """Carry out `operation`, or fail, or do both; a read may show an older state."""
        cached_s = self._record.faults.names_cached_s
        if not cached_s:
            return perform(self._backend, operation)
        key = operation.folder if not hasattr(operation, "key") else operation.key
        if not isinstance(operation, Read):
            self._missing.pop(key, None)
            return perform(self._backend, operation)
        if self._missing.get(key, 0.0) > self._record.now_s():
            return None
        found = perform(self._backend, operation)
        if found is None:
            self._missing[key] = self._record.now_s() + self._record.chance.uniform(0.0, cached_s)
        return found
