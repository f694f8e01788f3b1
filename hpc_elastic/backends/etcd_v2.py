"""The record in etcd v2, for servers that speak nothing newer: plain and correct, not tuned.

By `python-etcd`, one client for each member. Exclusive create is `prevExist=false`; the folder of
the run has a time to live of two hours, which every agent renews. etcd v2 hides keys that begin with
an underscore from listings, and its values are text: segments and values are written accordingly.
"""

from __future__ import annotations

import base64
import binascii
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from hpc_elastic.backends import etcd_failures
from hpc_elastic.backends.base import check_key
from hpc_elastic.backends.changes import Changes
from hpc_elastic.backends.etcd_endpoints import PASSWORD_VARIABLE, SETTINGS, Endpoint, EtcdAddress
from hpc_elastic.clock import SYSTEM_CLOCK, Clock
from hpc_elastic.errors import BackendRefused, BackendUnavailable

TTL_S: Final = 2 * 60 * 60
RENEW_EVERY_S: Final = 5 * 60
_WATCH_IDLE_S: Final = 60
_WATCH_PAUSE_S: Final = 1.0
_NEVER_HIDDEN: Final = "="
_QUIET: Final = "nodes"

T = TypeVar("T")


class NoV2(BackendRefused):
    """The server does not speak v2."""


class EtcdV2Backend:
    """A backend below `<prefix>/<space>/` in the v2 store of one cluster. Threads may share it."""

    def __init__(
        self, clients: tuple[Any, ...], address: EtcdAddress, space: str, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self.address = address
        self.cluster = ""
        self._clients = clients
        self._folder = f"{address.prefix}/{space}"
        self._at = 0
        self._clock = clock
        self._renewed_at_s: float | None = None
        self._changes = Changes()
        self._watch: threading.Thread | None = None
        self._is_over = threading.Event()
        self._lock = threading.Lock()

    @classmethod
    def open(cls, address: EtcdAddress, space: str, clock: Clock = SYSTEM_CLOCK) -> EtcdV2Backend:
        """The record of the run that has `space` to itself, in a cluster that has just answered.

        Raises `NoV2` where the server does not speak v2, `BackendUnavailable` where none answers.
        """
        clients = tuple(_client(address, endpoint) for endpoint in address.endpoints)
        opened = cls(clients, address, check_key(space), clock)
        opened._renew()
        opened.cluster = str(clients[opened._at].expected_cluster_id or "")
        return opened

    def create(self, key: str, value: bytes) -> bytes:
        import etcd

        self._renew()
        path = self._path(key)
        try:
            self._ask(lambda client: client.write(path, _text(value), prevExist=False))
        except etcd.EtcdAlreadyExist:
            stored = self.read(key)
            if stored is None:
                raise BackendUnavailable(f"etcd v2 {self.address}: {key} exists and is gone") from None
            return stored
        return value

    def overwrite(self, key: str, value: bytes) -> None:
        self._renew()
        path = self._path(key)
        self._ask(lambda client: client.write(path, _text(value)))

    def read(self, key: str) -> bytes | None:
        return self.read_versioned(key)[0]

    def read_versioned(self, key: str) -> tuple[bytes | None, int]:
        """The value under `key`, and a number that is another for each change of it; None and 0 for none."""
        import etcd

        path = self._path(key)
        try:
            found = self._ask(lambda client: client.read(path, quorum=True))
        except etcd.EtcdKeyNotFound:
            return None, 0
        return (None, 0) if found.dir else (_bytes(found.value, key), int(found.modifiedIndex))

    def swap(self, key: str, version: int, value: bytes) -> bool:
        """Replace what `read_versioned` gave with `version`; False where something else stands by now."""
        import etcd

        self._renew()
        path = self._path(key)
        condition: dict[str, Any] = {"prevIndex": version} if version else {"prevExist": False}
        try:
            self._ask(lambda client: client.write(path, _text(value), **condition))
        except (etcd.EtcdAlreadyExist, etcd.EtcdCompareFailed, etcd.EtcdKeyNotFound):
            return False
        return True

    def names(self, folder: str) -> frozenset[str]:
        import etcd

        path = self._path(folder)
        try:
            found = self._ask(lambda client: client.read(path, quorum=True))
        except etcd.EtcdKeyNotFound:
            return frozenset()
        # A file, or an empty folder, gives itself as its only child.
        inside = (one.key.removeprefix(f"{path}/") for one in found.children if not one.dir)
        return frozenset(_plain(name) for name in inside if "/" not in name)

    def remove(self, key: str) -> None:
        import etcd

        path = self._path(key)
        try:
            self._ask(lambda client: client.delete(path, recursive=True))
        except etcd.EtcdKeyNotFound:
            return

    def wait(self, timeout_s: float, wake: threading.Event) -> None:
        """As the protocol says; changes of presences are not told of."""
        with self._lock:
            if self._watch is None:
                self._watch = threading.Thread(
                    target=self._follow, name="hpc-elastic etcd watch", daemon=True
                )
                self._watch.start()
        self._changes.wait(timeout_s, wake)

    def close(self) -> None:
        """Give the connections back; the watch ends with its present request."""
        self._is_over.set()
        for client in self._clients:
            client.http.clear()

    def _path(self, key: str) -> str:
        segments = check_key(key).split("/")
        hidden = (f"{_NEVER_HIDDEN}{part}" if part.startswith("_") else part for part in segments)
        return "/".join((self._folder, *hidden))

    def _renew(self) -> None:
        """Make the folder of the run, or move its end on."""
        import etcd

        now_s = self._clock.monotonic_s()
        if self._renewed_at_s is not None and now_s - self._renewed_at_s < RENEW_EVERY_S:
            return
        try:
            self._ask(lambda client: client.write(self._folder, None, dir=True, ttl=TTL_S, prevExist=False))
        except (etcd.EtcdAlreadyExist, etcd.EtcdNotFile):
            self._ask(lambda client: client.write(self._folder, None, dir=True, ttl=TTL_S, prevExist=True))
        self._renewed_at_s = now_s

    def _ask(self, request: Callable[[Any], T]) -> T:
        """The answer of the first member that gives one."""
        failed: BackendUnavailable | None = None
        for _ in self._clients:
            at = self._at
            try:
                with _explained(self.address, self.address.endpoints[at]):
                    return request(self._clients[at])
            except BackendRefused:
                raise
            except BackendUnavailable as silent:
                failed = silent
                self._at = (at + 1) % len(self._clients)
        raise failed or BackendUnavailable(f"etcd v2 {self.address} names no endpoint")

    def _follow(self) -> None:
        """Tell of changes until closed. What it misses is found by the looks that are made anyway."""
        index = None
        while not self._is_over.is_set():
            try:
                index = self._next_change(index)
            except BackendUnavailable:
                index = None
                self._is_over.wait(_WATCH_PAUSE_S)
                self._changes.note()

    def _next_change(self, index: int | None) -> int | None:
        """Wait for a change from `index` on; where the next wait begins."""
        import etcd

        at = self._at
        try:
            with _explained(self.address, self.address.endpoints[at]):
                found = self._clients[at].read(
                    self._folder, wait=True, waitIndex=index, recursive=True, timeout=_WATCH_IDLE_S
                )
        except etcd.EtcdWatchTimedOut:
            return index
        except etcd.EtcdEventIndexCleared:
            return None  # etcd v2 keeps the last thousand changes only
        except etcd.EtcdKeyNotFound:
            self._is_over.wait(_WATCH_PAUSE_S)
            return None
        if not found.key.startswith(f"{self._folder}/{_QUIET}/"):
            self._changes.note()
        return int(found.modifiedIndex) + 1


def _client(address: EtcdAddress, endpoint: Endpoint) -> Any:
    """A client of one member. With several, python-etcd would go on to addresses that nobody gave it."""
    import etcd

    class Client(etcd.Client):  # type: ignore[misc]  # python-etcd has no types
        def _check_cluster_id(self, response: Any) -> None:
            # python-etcd asks for methods that urllib3 2 calls deprecated, and its successor drops.
            if not hasattr(response, "getheaders"):
                response.getheaders = lambda: response.headers
                response.getheader = response.headers.get
            super()._check_cluster_id(response)

    cert: Any = (address.cert, address.key) if address.key else address.cert or None
    return Client(
        host=f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host,
        port=endpoint.port,
        protocol=address.protocol,
        cert=cert,
        ca_cert=address.cacert or None,
        username=address.user or None,
        password=address.password.reveal() or None,
        read_timeout=address.request_timeout_s,
    )


@contextmanager
def _explained(address: EtcdAddress, endpoint: Endpoint) -> Iterator[None]:
    """Failures of python-etcd as errors of ours; the answers that the backend needs pass."""
    import etcd

    where = f"etcd at {address.protocol}://{endpoint}"
    try:
        yield
    except (
        etcd.EtcdAlreadyExist,
        etcd.EtcdCompareFailed,
        etcd.EtcdKeyNotFound,
        etcd.EtcdNotFile,
        etcd.EtcdWatchTimedOut,
        etcd.EtcdEventIndexCleared,
    ):
        raise
    except etcd.EtcdInsufficientPermissions as failed:
        if not address.user:
            raise BackendRefused(
                f"{where} wants a user and a password; set {SETTINGS['user']} and {PASSWORD_VARIABLE}"
            ) from failed
        raise BackendRefused(
            f"{where} refuses user {address.user!r} the keys below {address.prefix}, or the password is "
            f"wrong; correct {SETTINGS['user']} and {PASSWORD_VARIABLE}"
        ) from failed
    except etcd.EtcdConnectionFailed as failed:
        raise etcd_failures.explain(address, endpoint, failed.cause or failed) from failed
    except (etcd.EtcdException, RecursionError) as failed:
        if "Bad response" in str(failed) and "404" in str(failed):
            raise NoV2(
                f"{where} does not speak v2; start it with --enable-v2, or better use its v3: "
                "--rdzv-backend etcd-v3"
            ) from failed
        raise BackendUnavailable(f"{where} answers by v2: {failed}; it is tried again") from failed


def _text(value: bytes) -> str:
    return base64.b64encode(value).decode("ascii")


def _bytes(text: str | None, key: str) -> bytes:
    try:
        return base64.b64decode(text or "", validate=True)
    except (binascii.Error, ValueError) as bad:
        raise BackendUnavailable(f"etcd v2: what stands under {key} was not written by this program") from bad


def _plain(segment: str) -> str:
    return segment.removeprefix(_NEVER_HIDDEN)
