"""Which addresses other hosts can reach."""

from __future__ import annotations

import socket


def is_loopback_literal(address: str) -> bool:
    """Whether an address is written as one that each host has for itself."""
    bare = address.strip("[]").lower()
    return bare.startswith("127.") or bare in ("::1", "localhost", "ip6-localhost", "0.0.0.0", "::")


def is_loopback(address: str) -> bool:
    """The same for a name, by asking the resolver; a name that does not resolve is none."""
    if is_loopback_literal(address):
        return True
    try:
        found = socket.getaddrinfo(address, None, proto=socket.IPPROTO_TCP)
    except OSError:
        return False
    return bool(found) and all(is_loopback_literal(str(entry[4][0])) for entry in found)
