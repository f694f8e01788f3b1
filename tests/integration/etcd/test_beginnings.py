"""What a node asks a server of etcd for when it comes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from hpc_elastic.backends.etcd_endpoints import EtcdAddress
from hpc_elastic.backends.etcd_transport import Transport
from hpc_elastic.backends.etcd_v3 import EtcdV3Backend
from hpc_elastic.testing.etcd_server import EtcdServer
from tests.integration.etcd.hearing import SOON_S, Clock, is_known, quiet, space
from tests.waiting import wait_until

pytestmark = pytest.mark.needs_etcd


class Counted(Transport):
    """Keeps what it is asked for."""

    def __init__(self, address: EtcdAddress) -> None:
        super().__init__(address)
        self.asked: list[str] = []

    def post(self, path: str, body: Mapping[str, Any], headers: Mapping[str, str]) -> dict[str, Any]:
        self.asked.append(path)
        return super().post(path, body, headers)


def test_who_comes_sees_what_a_run_begins_with_in_one_request(etcd_server: EtcdServer) -> None:
    name = space()
    acting = EtcdV3Backend.open(etcd_server.address(), name)
    for key in ("attempts/1", "attempts/1.seat.n0.0", "rounds/1", "rounds/1.verdict"):
        acting.create(key, b"x")
    acting.overwrite("bell", b"rung")
    coming = EtcdV3Backend.open(etcd_server.address(), name, Clock())  # a first look is over before long
    transport = coming.client.transport = Counted(coming.client.transport.address)

    assert coming.names("attempts") == {"1", "1.seat.n0.0"}
    assert coming.names("rounds") == {"1", "1.verdict"}
    assert coming.read("bell") == b"rung"
    assert coming.read("rounds/2") is None
    assert transport.asked == ["/v3/kv/txn"]

    assert coming.read("rounds/1") == b"x"
    quiet(coming)
    acting.create("rounds/2", b"y")
    # Before there is a watch the server is asked, and right after it the round is known not to be there.
    wait_until(
        lambda: is_known(coming, "rounds/2") and coming.read("rounds/2") == b"y",
        SOON_S,
        "the watch has told of the round",
    )
    transport.asked.clear()
    assert coming.names("rounds") == {"1", "1.verdict", "2"}
    assert (coming.read("bell"), coming.read("rounds/2"), coming.read("rounds/3")) == (b"rung", b"y", None)
    assert transport.asked == []
    coming.close()
    acting.close()
