"""All that was ever written to the etcd where a run meets, in the order in which etcd carried it out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from hpc_elastic.backends.etcd_client import EtcdClient, bytes_of, end_of, text_of
from hpc_elastic.backends.etcd_endpoints import EtcdAddress

_MARK = b"end of the history"
_IDLE_S = 60.0


@dataclass(frozen=True)
class Written:
    """One value, or None where the key was removed, and the revision of the whole store at which it came."""

    key: str
    value: bytes | None
    revision: int


def written_below(address: EtcdAddress, prefix: str) -> Iterator[Written]:
    """Each write below `prefix`, from the first one on; nothing may have been compacted."""
    client = EtcdClient.open(address)
    start = prefix.encode()
    client.put({start + _MARK: b""})
    wanted = {"key": text_of(start), "range_end": text_of(end_of(start)), "start_revision": "1"}
    request = json.dumps({"create_request": wanted}).encode()
    with client.transport.stream(f"{client.root}/watch", request, client.headers(), _IDLE_S) as response:
        rest = b""
        for part in response.stream(1 << 16):
            *lines, rest = (rest + part).split(b"\n")
            for line in filter(None, lines):
                for event in json.loads(line)["result"].get("events", ()):
                    stored = event["kv"]
                    key = bytes_of(stored["key"])[len(start) :]
                    if key == _MARK:
                        client.close()
                        return
                    value = None if event.get("type") == "DELETE" else bytes_of(stored.get("value", ""))
                    yield Written(key.decode(), value, int(stored["mod_revision"]))
