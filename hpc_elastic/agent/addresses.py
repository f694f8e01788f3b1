"""The address under which other nodes reach this one."""

from __future__ import annotations

import socket
from collections.abc import Sequence

from hpc_elastic.errors import UsageError

LOOPBACK = "127.0.0.1"


def choose(*, given: str, names: Sequence[str], alone: bool, allow_loopback: bool) -> str:
    """This node's address: the given one, else that of one of its `names`, else of its default route.

    `alone` says that no other node will ever need it. Raises `UsageError` where only loopback is
    left and was not allowed: peers would connect to themselves.
    """
    if given:
        return given
    if alone or allow_loopback:
        return LOOPBACK
    for name in names:
        found = _resolve(name)
        if found is not None:
            return found
    routed = _of_default_route()
    if routed is not None:
        return routed
    raise UsageError(
        f"no address but loopback is known for {' or '.join(names)}; give one that the other nodes reach "
        "by --local-addr (for several nodes on one machine: HPC_ELASTIC_ALLOW_LOOPBACK=1)"
    )


def _resolve(name: str) -> str | None:
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except OSError:
        return None
    # Debian writes 127.0.1.1 for the host's own name into /etc/hosts.
    addresses = [str(entry[4][0]) for entry in found]
    return next((address for address in addresses if not _is_local(address)), None)


def _of_default_route() -> str | None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # TEST-NET-1: nothing is sent, the kernel picks the source
        except OSError:
            return None
        address = str(probe.getsockname()[0])
    return None if _is_local(address) else address


def _is_local(address: str) -> bool:
    return address.startswith(("127.", "169.254.", "fe80:", "0.")) or address == "::1"
