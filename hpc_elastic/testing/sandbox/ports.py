"""Where daemons can listen: the address, and free ports."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path
from typing import Final

from hpc_elastic.errors import SandboxError

_LOWEST: Final = 10_000
LOOPBACK: Final = "127.0.0.1"
_EPHEMERAL: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")

IsFree = Callable[[int], bool]


class PortTaken(SandboxError):
    """Somebody else listens on a port that a daemon wanted."""


def name_is_loopback(name: str, *, look_up: Callable[[str], str] = socket.gethostbyname) -> bool:
    """Whether this machine's `name` leads to the loopback address.

    A Slurm that is told not to listen everywhere listens where its host name leads to (22.05). That is
    another machine's way in on many a cloud, and 127.0.1.1 on a Debian as installed: there all daemons
    register, but slurmd looks for srun at 127.0.0.1 and no step ever starts.
    """
    try:
        return look_up(name.partition(".")[0]) == LOOPBACK
    except OSError:
        return False


def is_free(port: int) -> bool:
    """Whether a daemon could listen on the port now; the answer may be old when it is used."""
    with socket.socket() as probe:
        # As Slurm does; without it a connection in TIME_WAIT would make the port look taken.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError:
            return False
    return True


def choose_row(count: int, *, draw: Callable[[int], int], free: IsFree = is_free) -> tuple[int, ...]:
    """A row of free ports below the range that the kernel hands to outgoing connections.

    `draw(n)` gives a number below n. A port inside that range could be lent to somebody's connection
    while a killed node is down.
    """
    highest = max(_ephemeral_start() - count, _LOWEST + count)
    for _ in range(200):
        first = _LOWEST + draw(highest - _LOWEST)
        row = tuple(range(first, first + count))
        if all(free(port) for port in row):
            return row
    raise PortTaken(f"no {count} free ports in a row between {_LOWEST} and {highest}; give --port FIRST")


def fixed_row(first: int, count: int, *, free: IsFree = is_free) -> tuple[int, ...]:
    """The row the person asked for; raises `PortTaken` with the first one in use."""
    row = tuple(range(first, first + count))
    for port in row:
        if not free(port):
            raise PortTaken(
                f"port {port} is taken (of {first} to {row[-1]}); "
                f"see who has it with `ss -ltnp sport = :{port}`, give another --port, or leave it out"
            )
    return row


def _ephemeral_start() -> int:
    try:
        return int(_EPHEMERAL.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return 32_768
