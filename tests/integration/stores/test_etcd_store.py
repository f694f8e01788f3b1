"""An etcd store lives through outages of its server, and adds exactly once."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator

import pytest

from hpc_elastic.backends.etcd_v3 import EtcdV3Backend
from hpc_elastic.errors import BackendRefused, BackendUnavailable
from hpc_elastic.stores.base import Store
from hpc_elastic.stores.etcd import EtcdStore
from hpc_elastic.testing.etcd_server import EtcdServer
from tests.waiting import wait_until

pytestmark = pytest.mark.needs_etcd


@pytest.fixture
def server(make_etcd_server: Callable[..., EtcdServer]) -> Iterator[EtcdServer]:
    made = make_etcd_server()
    yield made
    made.stop()


def open_store(server: EtcdServer, space: str) -> Store:
    return EtcdStore(EtcdV3Backend.open(server.address(), space), "stores/1")


def test_adds_during_outages_and_a_restart_of_the_server_count_exactly_once(server: EtcdServer) -> None:
    space = f"outage-{os.urandom(4).hex()}"
    stores = [open_store(server, space) for _ in range(4)]
    sums: list[int] = []

    def count(store: Store) -> None:
        for _ in range(60):
            sums.append(store.add("n", 1))

    threads = [threading.Thread(target=count, args=(store,)) for store in stores]
    for thread in threads:
        thread.start()
    for reached in (20, 70, 120):
        wait_until(lambda reached=reached: len(sums) >= reached, 60, f"{reached} adds")  # type: ignore[misc]
        server.members[0].pause()
        threading.Timer(0.4, server.members[0].resume).start()
    wait_until(lambda: len(sums) >= 170, 60, "170 adds")
    server.restart(keeps_data=True)
    for thread in threads:
        thread.join(200)

    assert sorted(sums) == list(range(1, 241))


def test_an_outage_ends_a_get_after_the_time_of_the_store(server: EtcdServer) -> None:
    store = open_store(server, "gone")
    store.set("key", "value")
    store.set_timeout(0.5)
    server.stop()

    with pytest.raises(BackendUnavailable):
        store.get("key", 0)


def test_a_value_that_is_too_large_for_the_server_is_refused_at_once(server: EtcdServer) -> None:
    with pytest.raises(BackendRefused, match="max-request-bytes"):
        open_store(server, "large").set("key", b"x" * 3_000_000)


def test_a_get_that_waits_is_told_by_a_watch(server: EtcdServer) -> None:
    backend = EtcdV3Backend.open(server.address(), "watch")
    waiting, setting = EtcdStore(backend, "stores/1"), open_store(server, "watch")
    got: list[bytes] = []
    thread = threading.Thread(target=lambda: got.append(waiting.get("key", 60)))
    thread.start()
    wait_until(lambda: waiting._watch is not None, 60, "the watch is open")
    setting.set("key", "value")
    thread.join(60)
    waiting.close()

    assert got == [b"value"]
