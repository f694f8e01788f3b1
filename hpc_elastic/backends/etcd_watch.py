"""A watch of etcd v3: one connection of its own that tells what changes, as it changes.

It may break, start anew and skip, and says so; what depends on it asks the store itself then.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Protocol

from hpc_elastic.backends.etcd_client import EtcdClient, bytes_of, text_of
from hpc_elastic.backends.etcd_endpoints import EtcdAddress
from hpc_elastic.backends.etcd_transport import EtcdAnswer, Transport
from hpc_elastic.errors import BackendUnavailable

if TYPE_CHECKING:
    from urllib3.response import BaseHTTPResponse

# What comes of reading an answer that no etcd gave: that of a proxy, of another program.
_NOT_OURS: Final = (ValueError, KeyError, TypeError, AttributeError, RecursionError)
# A watch that has been silent for this long is opened anew, at the next member: a member that is cut
# off from the others keeps its watches open and tells them nothing.
_IDLE_S: Final = 60.0
# The gateway (3.4) reads the creations while it answers the first of them, and Go's server may then give
# the rest of a request up: of three the last is lost one time in eight. So they are waited for this long.
_CREATED_WITHIN_S: Final = 1.0
_FIRST_PAUSE_S: Final = 0.1
_LONGEST_PAUSE_S: Final = 5.0
_MOST_LINE_BYTES: Final = 64 * 1024 * 1024

Interval = tuple[bytes, bytes]


class Listener(Protocol):
    """Who is told; called from the thread of the watch."""

    def begin(self, revision: int, *, is_continued: bool) -> None:
        """Everything after `revision` is told; with `is_continued` nothing was left out before."""
        ...

    def end(self) -> None:
        """The watch is broken."""
        ...

    def told(self, key: bytes, revision: int, value: bytes | None) -> None:
        """`key` was changed, or removed, at `revision`."""
        ...


class OnChange:
    """A listener that only calls `changed`: at each change, and when something may have been missed."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self.begin = self.end = self.told = lambda *_, **__: changed()


class EtcdWatch:
    """Tells `listener` of changes of keys in `intervals`, from a thread of its own."""

    def __init__(self, client: EtcdClient, intervals: tuple[Interval, ...], listener: Listener) -> None:
        self._client = client
        self._intervals = intervals
        self._listener = listener
        self._next_revisions: dict[int, int] = {}
        self._created: dict[int, int] = {}
        self._continues = False
        self._is_over = threading.Event()
        self._open: BaseHTTPResponse | None = None
        self._thread = threading.Thread(target=self._run, name="hpc-elastic etcd watch", daemon=True)

    @classmethod
    def start(
        cls,
        address: EtcdAddress,
        root: str,
        intervals: tuple[Interval, ...],
        listener: Listener,
        *,
        after: int = 0,
    ) -> EtcdWatch:
        """A running watch, with connections and a token of its own.

        It continues what is known of revision `after`; with 0 it begins at what is then.
        """
        watch = cls(EtcdClient(Transport(address), root), intervals, listener)
        if after:
            watch._next_revisions = dict.fromkeys(range(1, len(intervals) + 1), after + 1)
        watch._thread.start()
        return watch

    def close(self) -> None:
        """End the watch; its thread ends by itself."""
        self._is_over.set()
        response = self._open
        if response is not None:
            with suppress(Exception):  # it may be closing right now, in its own thread
                _shut_down(response)

    def _run(self) -> None:
        pause_s = _FIRST_PAUSE_S
        while not self._is_over.is_set():
            try:
                self._follow()
                pause_s = _FIRST_PAUSE_S
            except (BackendUnavailable, EtcdAnswer, *_NOT_OURS):
                self._client.forget_token()
                self._client.transport.move_on()
                pause_s = min(_LONGEST_PAUSE_S, pause_s * 2)
            self._listener.end()
            self._is_over.wait(pause_s)
        self._client.close()

    def _follow(self) -> None:
        """Open the watch and pass its events on until it ends."""
        client = self._client
        self._created.clear()
        # Events may come before the last interval is created, and a break in between leaves a part.
        self._continues = len(self._next_revisions) == len(self._intervals)
        if not self._continues:
            self._next_revisions.clear()
        with client.transport.stream(
            f"{client.root}/watch", self._request(), client.headers(), _CREATED_WITHIN_S
        ) as response:
            self._open = response
            try:
                for told in _lines(response):
                    if not self._take(told.get("result", {})):
                        self._next_revisions.clear()
                        return
                    if len(self._created) == len(self._intervals):
                        _allow_silence(response)
            finally:
                self._open = None

    def _request(self) -> bytes:
        """One creation for each interval: the gateway takes them one behind the other."""
        parts = []
        for number, (start, end) in enumerate(self._intervals, 1):
            wanted = {"key": text_of(start), "range_end": text_of(end), "watch_id": str(number)}
            if self._continues:
                wanted["start_revision"] = str(self._next_revisions[number])
            parts.append(json.dumps({"create_request": wanted}))
        return "".join(parts).encode()

    def _take(self, told: dict[str, Any]) -> bool:
        """Whether the watch goes on; if not, the next one begins at what is then."""
        number, revision = int(told.get("watch_id", 0)), int(told.get("header", {}).get("revision", 0))
        if told.get("canceled"):
            return False  # compacted: what happened before cannot be told any more
        if told.get("created"):
            return self._note_created(number, revision)
        for event in told.get("events", ()):
            stored = event["kv"]
            at = int(stored["mod_revision"])
            value = None if event.get("type") == "DELETE" else bytes_of(stored.get("value", ""))
            self._next_revisions[number] = max(self._next_revisions.get(number, 0), at + 1)
            self._listener.told(bytes_of(stored["key"]), at, value)
        return True

    def _note_created(self, number: int, revision: int) -> bool:
        if revision + 1 < self._next_revisions.get(number, 0):
            return False  # the store has gone back: it was emptied or restored
        self._created[number] = revision
        if len(self._created) == len(self._intervals):
            for each, at in self._created.items():
                self._next_revisions.setdefault(each, at + 1)
            self._listener.begin(max(self._created.values()), is_continued=self._continues)
        return True


def _lines(response: BaseHTTPResponse) -> Iterator[dict[str, Any]]:
    """The JSON objects of a stream, one in each line, as they come."""
    rest = b""
    for part in response.stream(1 << 16):
        *whole, rest = (rest + part).split(b"\n")
        for line in filter(None, whole):
            told = json.loads(line)
            if isinstance(told, dict):
                yield told
        if len(rest) > _MOST_LINE_BYTES:
            return


def _allow_silence(response: BaseHTTPResponse) -> None:
    sock = getattr(response.connection, "sock", None)
    if sock is not None and sock.gettimeout() != _IDLE_S:
        sock.settimeout(_IDLE_S)


def _shut_down(response: BaseHTTPResponse) -> None:
    """Wake a thread that reads from this answer: only the socket itself can do that."""
    import socket

    sock = getattr(response.connection, "sock", None)
    if sock is not None:
        sock.shutdown(socket.SHUT_RDWR)
