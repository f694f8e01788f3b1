"""The record in etcd v3: below a prefix of the run's own, held by one lease of the run.

Exclusive create is a transaction on "the create revision is 0", which hands out the winner's value
when it is lost. The lease has one number for all agents of a run and is renewed by each of them, so
everything vanishes two hours after the last one has died, and nothing earlier. Nobody's life is
judged by it: a server that stood still for longer than a lease drops it with everyone alive. Such a
lease is granted anew with the next write. Presences come back with their next beat; what was created
for ever is not missed, because its readers have it, and the ledger in the run directory has it too.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any, Final, TypeVar

from hpc_elastic.backends.base import check_key
from hpc_elastic.backends.changes import Changes
from hpc_elastic.backends.etcd_ahead import ReadAhead
from hpc_elastic.backends.etcd_client import (
    EtcdClient,
    LeaseGone,
    bytes_of,
    end_of,
    revision_of,
    text_of,
)
from hpc_elastic.backends.etcd_endpoints import EtcdAddress
from hpc_elastic.backends.etcd_known import Known, KnownValues
from hpc_elastic.backends.etcd_watch import EtcdWatch, OnChange
from hpc_elastic.clock import SYSTEM_CLOCK, Clock
from hpc_elastic.errors import BackendUnavailable

LEASE_TTL_S: Final = 2 * 60 * 60
RENEW_EVERY_S: Final = 5 * 60

# What is waited for. Presences change all the time and are read by the few who need them; what is below
# `attempts/`, a seat for each node for example, is read when the bell has said so.
_WATCHED: Final = (("bell", "bell\0"), ("rounds/", "rounds0"))
_WATCHED_KEYS: Final = ("bell", "rounds/")
_PRESENCES: Final = "nodes/"
# What whoever comes looks at first, in one request. Of most keys it is enough to know that they are there.
_LOOKED_AT: Final = (
    ("bell", "bell\0", False),
    ("attempts/", "attempts0", True),
    ("rounds/", "rounds0", True),
)
_OTHERS: Final = ("attempts/",)

# The first write trusts that somebody has renewed the lease not long ago; then each agent does so in turn.
_FIRST_RENEWAL_S: Final = 10.0

# Beside each overwrite goes one to a key of this backend's own, and the watch has to tell of it.
_PULSE: Final = "pulse/"

T = TypeVar("T")


class EtcdV3Backend:
    """A backend below `<prefix>/<space>/` of one cluster. Threads may share it."""

    def __init__(self, client: EtcdClient, space: str, clock: Clock = SYSTEM_CLOCK) -> None:
        self.client = client
        self.cluster = ""  # the same for every member of a cluster, another for every other cluster
        self._base = f"{client.transport.address.prefix}/{space}/".encode()
        self._lease = _lease_of(self._base)
        self._renewed_at_s: float | None = None
        self._clock = clock
        self._changes = Changes()
        watched, others = (
            tuple(self._base + key.encode() for key in found) for found in (_WATCHED_KEYS, _OTHERS)
        )
        self._known = KnownValues(watched, others, clock.monotonic_s)
        self._presences = ReadAhead(lambda name: client.get(name)[0], self._all_presences, clock.monotonic_s)
        self._watch: EtcdWatch | None = None
        self._pulse = self._base + f"{_PULSE}{os.urandom(8).hex()}".encode()
        self._lock = threading.Lock()

    @classmethod
    def open(cls, address: EtcdAddress, space: str, clock: Clock = SYSTEM_CLOCK) -> EtcdV3Backend:
        """The record of the run that has `space` to itself, in a cluster that has just answered.

        Raises `BackendUnavailable`, or `BackendRefused` where trying again would not help.
        """
        opened = cls(EtcdClient.open(address), check_key(space), clock)
        opened.cluster = opened.client.cluster
        return opened

    def create(self, key: str, value: bytes) -> bytes:
        name = self._name(key)
        is_new = {"key": text_of(name), "target": "CREATE", "result": "EQUAL", "create_revision": "0"}
        stored = {"request_range": {"key": text_of(name)}}

        def write(lease: int) -> bytes:
            put = {"request_put": self.client.put_body(name, value, lease)}
            answer = self.client.txn([is_new], [put], [stored])
            made = value if answer.get("succeeded") else _winner(answer, key)
            self._note_own(key, revision_of(answer), made)
            return made

        return self._leased(write)

    def overwrite(self, key: str, value: bytes) -> None:
        values = {self._name(key): value}
        if self._watch is not None:
            values[self._pulse] = b""
        revision = self._leased(lambda lease: self.client.put(values, lease))
        self._note_own(key, revision, value)
        if self._watch is not None:
            self._known.wrote(revision)

    def read(self, key: str) -> bytes | None:
        """As the protocol says. What the watch tells of may be some milliseconds old."""
        name = self._name(key)
        if key.startswith(_PRESENCES):
            return self._presences.read(name)
        self._look_around(key)
        is_known, value = self._known.look_up(name)
        if is_known:
            return value
        value, revision = self.client.get(name)
        if key.startswith(_WATCHED_KEYS):
            self._known.was_read(name, revision, value)
        return value

    def read_versioned(self, key: str) -> tuple[bytes | None, int]:
        """The value under `key`, and a number that is another for each change of it; None and 0 for none."""
        found = self.client.range(self._name(key))
        return (bytes_of(found[0].get("value", "")), int(found[0]["mod_revision"])) if found else (None, 0)

    def swap(self, key: str, version: int, value: bytes) -> bool:
        """Replace what `read_versioned` gave with `version`; False where something else stands by now."""
        name = self._name(key)
        same = {"key": text_of(name), "target": "MOD", "result": "EQUAL", "mod_revision": str(version)}

        def write(lease: int) -> bool:
            put = {"request_put": self.client.put_body(name, value, lease)}
            return bool(self.client.txn([same], [put], []).get("succeeded"))

        return self._leased(write)

    def watch(self, folder: str, changed: Callable[[], None]) -> EtcdWatch:
        """A watch of its own of all that is below `folder`; the caller closes it."""
        prefix = self._name(folder) + b"/"
        address = self.client.transport.address
        return EtcdWatch.start(address, self.client.root, ((prefix, end_of(prefix)),), OnChange(changed))

    def names(self, folder: str) -> frozenset[str]:
        prefix = self._name(folder) + b"/"
        self._look_around(f"{folder}/")
        below = self._known.names(prefix)
        if below is None:
            found = self.client.range(prefix, end_of(prefix), keys_only=True)
            below = frozenset(bytes_of(one["key"])[len(prefix) :] for one in found)
        return frozenset(name.decode("ascii", "replace") for name in below if b"/" not in name)

    def remove(self, key: str) -> None:
        self._known.forget(self._name(key))
        self.client.delete(self._name(key))

    def wait(self, timeout_s: float, wake: threading.Event) -> None:
        """As the protocol says; changes of presences are not told of."""
        self._start_watch()
        self._changes.wait(timeout_s, wake)

    def close(self) -> None:
        if self._watch is not None:
            self._watch.close()
        self.client.close()

    def _name(self, key: str) -> bytes:
        return self._base + check_key(key).encode("ascii")

    def _note_own(self, key: str, revision: int, value: bytes) -> None:
        if key.startswith((*_WATCHED_KEYS, *_OTHERS)):
            self._known.told(self._name(key), revision, value)

    def _look_around(self, key: str) -> None:
        """Before the first look at what a run begins with, see all of that at once."""
        if (
            self._known.snapshot_revision
            or self._watch is not None
            or not key.startswith((*_WATCHED_KEYS, *_OTHERS))
        ):
            return
        asked_at_s = self._clock.monotonic_s()
        ranges = [
            {
                "request_range": self.client.range_body(
                    self._base + a.encode(), self._base + b.encode(), keys_only=c
                )
            }
            for a, b, c in _LOOKED_AT
        ]
        answer = self.client.txn([], ranges, [])
        found = [
            (
                bytes_of(one["key"]),
                Known(int(one["mod_revision"]), bytes_of(one.get("value", "")), not keys_only),
            )
            for (_, _, keys_only), part in zip(_LOOKED_AT, answer["responses"], strict=True)
            for one in part["response_range"].get("kvs", ())
        ]
        self._known.take_snapshot(revision_of(answer), found, asked_at_s)

    def _all_presences(self) -> dict[bytes, bytes]:
        prefix = self._base + _PRESENCES.encode()
        found = self.client.range(prefix, end_of(prefix))
        return {bytes_of(one["key"]): bytes_of(one.get("value", "")) for one in found}

    def _leased(self, write: Callable[[int], T]) -> T:
        """Write what belongs to the run's lease, which is renewed when it is time."""
        self._renew()
        try:
            return write(self._lease)
        except LeaseGone:
            self.client.grant(self._lease, LEASE_TTL_S)
        try:
            return write(self._lease)
        except LeaseGone as gone:
            raise BackendUnavailable(
                f"etcd at {self.client.transport.address} drops the lease of this run as soon as it is "
                "granted; look at its clock and its log"
            ) from gone

    def _renew(self) -> None:
        now_s = self._clock.monotonic_s()
        if self._renewed_at_s is None:
            self._renewed_at_s = now_s - RENEW_EVERY_S + _FIRST_RENEWAL_S
        if now_s - self._renewed_at_s < RENEW_EVERY_S:
            return
        if not self.client.keep_alive(self._lease):
            self.client.grant(self._lease, LEASE_TTL_S)
        self._renewed_at_s = now_s

    def _start_watch(self) -> None:
        if self._watch is not None:
            return
        with self._lock:
            if self._watch is None:
                ranges = tuple((self._base + a.encode(), self._base + b.encode()) for a, b in _WATCHED)
                address, root = self.client.transport.address, self.client.root
                pulse = (self._pulse, self._pulse + b"\0")
                after = self._known.snapshot_revision
                self._watch = EtcdWatch.start(address, root, (*ranges, pulse), self, after=after)

    def begin(self, revision: int, *, is_continued: bool) -> None:
        """The watch, in its own thread: it tells everything from here on."""
        self._known.begin(revision, is_continued=is_continued)

    def end(self) -> None:
        """The watch, in its own thread: it is broken, and something may be missed."""
        self._known.end()
        self._changes.note()

    def told(self, key: bytes, revision: int, value: bytes | None) -> None:
        """The watch, in its own thread: something has changed."""
        if key == self._pulse:
            self._known.echo(revision)
            return
        self._known.told(key, revision, value)
        self._changes.note()


def _winner(answer: dict[str, Any], key: str) -> bytes:
    """The value that was there before a lost create, from the same transaction."""
    try:
        return bytes_of(answer["responses"][0]["response_range"]["kvs"][0].get("value", ""))
    except (KeyError, IndexError, TypeError, ValueError) as bad:
        raise BackendUnavailable(f"etcd's answer to the creation of {key} makes no sense: {answer}") from bad


def _lease_of(base: bytes) -> int:
    """The number of a run's lease: from its name, so that all its agents know it."""
    import hashlib

    return int.from_bytes(hashlib.sha256(base).digest()[:8], "big") >> 1 or 1
