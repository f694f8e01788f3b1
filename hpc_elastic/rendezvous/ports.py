"""A port that is held open until the master of a round may have it."""

from __future__ import annotations

import socket


class HeldPort:
    """Binds without listening: an eager peer is refused and tries again, and nothing is left in TIME_WAIT."""

    def __init__(self, address: str) -> None:
        self._family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self._socket: socket.socket | None = None

    def hold(self) -> int:
        if self._socket is None:
            self._socket = socket.socket(self._family, socket.SOCK_STREAM)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._socket.bind(("", 0))
        return int(self._socket.getsockname()[1])

    def release(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None
