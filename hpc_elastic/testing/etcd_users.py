"""A user of a test's etcd, by v3 and by v2: the default prefix is theirs, and nothing else."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any, Final

from hpc_elastic.backends.etcd_client import end_of, text_of
from hpc_elastic.backends.etcd_endpoints import DEFAULT_PREFIX, EtcdAddress
from hpc_elastic.backends.etcd_transport import Transport
from hpc_elastic.errors import HpcElasticError

_ROOT: Final = "root"
_ROOT_PASSWORD: Final = "root of a test"
_ROLE: Final = "training"


def admit_by_v3(address: EtcdAddress, user: str, password: str) -> None:
    """Demand a password by v3 from now on."""
    prefix = f"{DEFAULT_PREFIX}/".encode()
    permission = {"permType": "READWRITE", "key": text_of(prefix), "range_end": text_of(end_of(prefix))}
    transport = Transport(address)
    try:
        for path, body in (
            ("user/add", {"name": _ROOT, "password": _ROOT_PASSWORD}),
            ("user/grant", {"user": _ROOT, "role": _ROOT}),
            ("role/add", {"name": _ROLE}),
            ("role/grant", {"name": _ROLE, "perm": permission}),
            ("user/add", {"name": user, "password": password}),
            ("user/grant", {"user": user, "role": _ROLE}),
            ("enable", {}),
        ):
            transport.post(f"/v3/auth/{path}", body, {})
    finally:
        transport.close()


def admit_by_v2(address: EtcdAddress, user: str, password: str) -> None:
    """Demand a password by v2 from now on: guests may do nothing."""
    keys = [f"{DEFAULT_PREFIX}/*", DEFAULT_PREFIX]
    everything = {"kv": {"read": ["/*"], "write": ["/*"]}}
    _put(address, f"users/{_ROOT}", {"user": _ROOT, "password": _ROOT_PASSWORD})
    _put(address, f"roles/{_ROLE}", {"role": _ROLE, "permissions": {"kv": {"read": keys, "write": keys}}})
    _put(address, f"users/{user}", {"user": user, "password": password, "roles": [_ROLE]})
    _put(address, "enable", {})
    _put(address, "roles/guest", {"role": "guest", "revoke": everything})


def _put(address: EtcdAddress, path: str, body: Mapping[str, Any]) -> None:
    """v2's users are made with PUT, as root."""
    import urllib3

    root = base64.b64encode(f"{_ROOT}:{_ROOT_PASSWORD}".encode()).decode()
    with urllib3.PoolManager(ca_certs=address.cacert or None) as pool:
        answer = pool.request(
            "PUT",
            f"{address.protocol}://{address.endpoints[0]}/v2/auth/{path}",
            body=json.dumps(body).encode(),
            headers={"Authorization": f"Basic {root}", "Content-Type": "application/json"},
            timeout=30.0,
        )
    if answer.status not in (200, 201):
        raise HpcElasticError(f"etcd v2 refuses {path}: {answer.status} {answer.data[:200]!r}")
