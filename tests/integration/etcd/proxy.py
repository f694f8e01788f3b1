"""A proxy before an etcd that is slow, or answers in its stead, as those of sites do."""

from __future__ import annotations

import re
import select
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

_LOOK_S = 0.2
_REQUEST_S = 60.0
_LENGTH = re.compile(rb"^content-length: *(\d+)", re.IGNORECASE | re.MULTILINE)


@dataclass
class Proxy:
    """`delay_s`: how long each piece is kept, both ways together; `answer`: what is said to any request."""

    port: int
    _listening: socket.socket
    delay_s: float = 0.0
    answer: bytes | None = None
    _is_over: threading.Event = field(default_factory=threading.Event)
    _open: set[socket.socket] = field(default_factory=set)

    @property
    def endpoint(self) -> str:
        return f"127.0.0.1:{self._listening.getsockname()[1]}"

    def say(self, answer: bytes | None) -> None:
        """Answer by itself from now on, also to those that are connected; None: ask the server again."""
        self.answer = answer
        for one in list(self._open):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def serve(self) -> None:
        while not self._is_over.is_set():
            with suppress(OSError):
                client, _ = self._listening.accept()
                threading.Thread(target=self._talk, args=(client,), daemon=True).start()

    def close(self) -> None:
        self._is_over.set()
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self.say(None)

    def _talk(self, client: socket.socket) -> None:
        with client, suppress(OSError):
            if self.answer is not None:
                _read_request(client)
                client.sendall(self.answer)
                return
            with socket.create_connection(("127.0.0.1", self.port)) as server:
                self._open |= {client, server}
                try:
                    self._pass_on(client, server)
                finally:
                    self._open -= {client, server}

    def _pass_on(self, client: socket.socket, server: socket.socket) -> None:
        # `say` may have come before these two were among the open ones.
        while not self._is_over.is_set() and self.answer is None:
            for ready in select.select([client, server], [], [], _LOOK_S)[0]:
                part = ready.recv(1 << 16)
                if not part:
                    return
                if ready is server and self.delay_s:
                    self._is_over.wait(self.delay_s)
                (client if ready is server else server).sendall(part)


def _read_request(client: socket.socket) -> None:
    """All of it: a connection that is closed with something unread is reset, and the answer may be lost."""
    client.settimeout(_REQUEST_S)
    head = b""
    while b"\r\n\r\n" not in head:
        head += _some(client)
    head, _, body = head.partition(b"\r\n\r\n")
    told = _LENGTH.search(head)
    missing = int(told[1]) - len(body) if told else 0
    while missing > 0:
        missing -= len(_some(client))


def _some(client: socket.socket) -> bytes:
    part = client.recv(1 << 16)
    if not part:
        raise ConnectionError("the client has hung up")
    return part


@contextmanager
def proxied(port: int) -> Iterator[Proxy]:
    """A proxy of the etcd at that port of this machine; ended when the block is left."""
    listening = socket.create_server(("127.0.0.1", 0))
    proxy = Proxy(port, listening)
    threading.Thread(target=proxy.serve, daemon=True).start()
    try:
        yield proxy
    finally:
        proxy.close()
