"""A knock: one datagram that says "look at the bell", to nodes that meet where nothing tells of changes.

An idle member of a run looks at a shared directory every 1.25 s, so as not to burden its server. Whoever
has rung the bell knocks at the others, and they look at once. It is a hint and nothing more: one that is
lost, or dropped by a firewall, costs that second, and one that a stranger sends costs a look.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final

from hpc_elastic.rendezvous.record import NodeState
from hpc_elastic.rendezvous.seen import Seen

Ear = tuple[str, int]

# However many knock, and whoever they are, this node looks no more often than this.
REST_S: Final = 0.02
_WORD: Final = b"look at the bell"


def ears_of(seen: Seen, node: str) -> frozenset[Ear]:
    """Where the others can be knocked at: members of the newest round, and those seen to wait for a place."""
    proposal = seen.front.proposal
    members = () if proposal is None else proposal.members
    found = {(one.address, one.ear) for one in members if one.node != node}
    for other, sighting in seen.nodes.items():
        presence = sighting.presence
        if other != node and presence.state is NodeState.JOINING:
            found.add((presence.address, presence.ear))
    return frozenset((address, port) for address, port in found if address and port)


class Knocker:
    """Knocks at others, and calls `heard` from a thread of its own when somebody knocks here."""

    def __init__(self, listening: socket.socket, family: socket.AddressFamily) -> None:
        self._socket = listening
        self._family = family
        self._is_over = threading.Event()

    @classmethod
    def open(cls, address: str) -> Knocker | None:
        """Listen on a free port, as `address` has it; None where that is impossible."""
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        try:
            listening = socket.socket(family, socket.SOCK_DGRAM)
        except OSError:
            return None
        try:
            listening.bind(("", 0))
        except OSError:
            listening.close()
            return None
        return cls(listening, family)

    @property
    def port(self) -> int:
        """Where others knock."""
        return int(self._socket.getsockname()[1])

    def start(self, heard: Callable[[], None]) -> None:
        """Begin to listen."""
        threading.Thread(target=self._listen, args=(heard,), name="hpc-elastic ear", daemon=True).start()

    def knock(self, ears: Iterable[Ear]) -> None:
        """Knock at all of them. Never waits: names that would have to be resolved are left out."""
        for address, port in ears:
            with suppress(OSError, OverflowError):
                if _is_number(self._family, address):
                    self._socket.sendto(_WORD, socket.MSG_DONTWAIT, (address, port))

    def close(self) -> None:
        """Stop listening."""
        self._is_over.set()
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # wakes the thread, though it says "not connected"
        self._socket.close()

    def _listen(self, heard: Callable[[], None]) -> None:
        while not self._is_over.is_set():
            try:
                self._socket.recvfrom(len(_WORD))
            except OSError:
                return  # closed
            if self._is_over.is_set():
                return
            heard()
            self._is_over.wait(REST_S)


def _is_number(family: socket.AddressFamily, address: str) -> bool:
    try:
        socket.inet_pton(family, address)
    except (OSError, ValueError):  # a zero byte, or what is no text
        return False
    return True
