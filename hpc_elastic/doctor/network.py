"""The addresses of this node, and the etcd that is configured."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from hpc_elastic.agent import addresses
from hpc_elastic.doctor.finding import Finding, Level
from hpc_elastic.errors import HpcElasticError, UsageError

_LOOPBACK_ALLOWED: Final = "HPC_ELASTIC_ALLOW_LOOPBACK"
_ETCD: Final = "HPC_ELASTIC_ETCD"
_PATIENCE_S: Final = 3.0


def look(environment: Mapping[str, str]) -> Iterator[Finding]:
    """How other nodes reach this one."""
    name = environment.get("SLURMD_NODENAME") or os.uname().nodename
    if environment.get(_LOOPBACK_ALLOWED) == "1":
        meaning = "right for several nodes on one machine, and for nothing else"
        yield Finding("address", Level.NOTE, f"{_LOOPBACK_ALLOWED}=1", meaning)
        return
    try:
        found = addresses.choose(
            given="", names=(name, os.uname().nodename), alone=False, allow_loopback=False
        )
    except UsageError as lacking:
        known = ", ".join(address for _, address in _interfaces()) or "(no interface is up)"
        do = f"hpc-elastic run --local-addr ADDRESS, with one of: {known}"
        yield Finding("address", Level.PROBLEM, str(lacking), "the other nodes cannot reach this one", do)
        return
    yield Finding("address", Level.FINE, f"{name} is reached at {found}", "rank 0's becomes MASTER_ADDR")
    yield from beside(found, _interfaces())


def beside(address: str, interfaces: Sequence[tuple[str, str]]) -> Iterator[Finding]:
    """What else there is than `address`, where that is a choice. Pure."""
    if len(interfaces) > 1:
        fact = ", ".join(f"{name} {own}" for name, own in interfaces)
        meaning = f"ranks meet by {address}; by another one with `hpc-elastic run --local-addr ADDRESS`"
        yield Finding("interfaces", Level.FINE, fact, meaning)


def look_at_etcd(environment: Mapping[str, str]) -> Iterator[Finding]:
    """Whether the etcd that is configured, if one is, answers."""
    endpoint = environment.get(_ETCD, "")
    if not endpoint:
        yield Finding("etcd", Level.FINE, "none is configured", "nodes meet in the run directory")
        return
    from hpc_elastic.backends import etcd_endpoints
    from hpc_elastic.clock import SYSTEM_CLOCK
    from hpc_elastic.rendezvous.choice import ETCD, open_etcd

    try:
        address = etcd_endpoints.parse(endpoint, {}, environment, request_timeout_s=_PATIENCE_S)
        name, live = open_etcd(ETCD, address, f"doctor/{os.urandom(4).hex()}", SYSTEM_CLOCK)
    except HpcElasticError as failed:
        meaning = "runs with --rdzv-backend auto meet in their directory; with etcd they fail"
        yield Finding("etcd", Level.PROBLEM, str(failed), meaning, f"correct or unset {_ETCD}")
        return
    live.close()
    yield Finding(
        "etcd", Level.FINE, f"{endpoint} answers as {name}", "nodes meet there with --rdzv-backend auto"
    )


def _interfaces() -> list[tuple[str, str]]:
    """Name and address of each that is no loopback."""
    import socket

    import psutil

    return [
        (name, one.address)
        for name, found in psutil.net_if_addrs().items()
        for one in found
        if one.family == socket.AF_INET and not one.address.startswith("127.")
    ]
