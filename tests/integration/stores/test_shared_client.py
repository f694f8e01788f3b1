"""One client of a store, used by many threads at once: what it says to one is never for another."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hpc_elastic.backends.etcd_v3 import EtcdV3Backend
from hpc_elastic.stores import FileStore, MemoryStore, Store, barrier, get_all
from hpc_elastic.stores.etcd import EtcdStore
from hpc_elastic.testing.etcd_server import EtcdServer

RANKS = 8
MEETINGS = {"memory": 500, "file": 20, "etcd": 8}
BEAT_S = 0.01
LONG_S = 120.0


@pytest.fixture(params=["memory", "file", pytest.param("etcd", marks=pytest.mark.needs_etcd)])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Store, int]]:
    """A client, and how many meetings it is to see."""
    meetings = MEETINGS[request.param]
    if request.param != "etcd":
        yield (MemoryStore() if request.param == "memory" else FileStore(tmp_path / "store")), meetings
        return
    server: EtcdServer = request.getfixturevalue("etcd_server")
    backend = EtcdV3Backend.open(server.address(), f"threads-{os.urandom(4).hex()}")
    made = EtcdStore(backend, "stores/1")
    yield made, meetings
    made.close()
    backend.close()


def test_eight_ranks_meet_again_and_again_while_another_thread_beats(store: tuple[Store, int]) -> None:
    client, meetings = store
    has_begun, is_over = threading.Event(), threading.Event()

    def beat() -> int:
        count = 0
        while not is_over.wait(BEAT_S):
            count += 1
            client.set("beat", str(count))
            assert client.get("beat", LONG_S) == str(count).encode()
            has_begun.set()
        return count

    def rank(me: int) -> None:
        for meeting in range(meetings):
            client.set(f"{meeting}/value/{me}", f"{meeting} of {me}")
            barrier(client, me, RANKS, f"{meeting}/meet", LONG_S)
            told = get_all(client, me, f"{meeting}/value", RANKS, LONG_S)
            assert told == [f"{meeting} of {one}".encode() for one in range(RANKS)]

    with ThreadPoolExecutor(RANKS + 1) as threads:
        beating = threads.submit(beat)
        assert has_begun.wait(LONG_S)
        ranks = [threads.submit(rank, me) for me in range(RANKS)]
        try:
            for one in ranks:
                one.result(2 * LONG_S)
        finally:
            is_over.set()
        beats = beating.result(LONG_S)

    assert beats > 0
