"""One contract, every store."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from hpc_elastic.backends.etcd_v2 import EtcdV2Backend
from hpc_elastic.backends.etcd_v3 import EtcdV3Backend
from hpc_elastic.backends.memory import MemoryBackend
from hpc_elastic.stores.base import Store
from hpc_elastic.stores.etcd import EtcdStore
from hpc_elastic.stores.file import FileStore
from hpc_elastic.stores.memory import MemoryStore
from hpc_elastic.stores.prefixed import PrefixedStore
from hpc_elastic.stores.records import RecordStore
from hpc_elastic.testing.contracts.store import StoreContract
from hpc_elastic.testing.etcd_server import EtcdServer


class TestMemoryStore(StoreContract):
    @pytest.fixture
    def store(self) -> Store:
        return MemoryStore()

    @pytest.fixture
    def twin(self, store: Store) -> Store:
        return store


class TestPrefixedStore(StoreContract):
    @pytest.fixture
    def store(self) -> Store:
        return PrefixedStore("a prefix", MemoryStore())

    @pytest.fixture
    def twin(self, store: Store) -> Store:
        return store


class TestRecordStoreOverAnyBackend(StoreContract):
    @pytest.fixture
    def backend(self) -> MemoryBackend:
        return MemoryBackend()

    @pytest.fixture
    def store(self, backend: MemoryBackend) -> Store:
        return RecordStore(backend, "stores/1")

    @pytest.fixture
    def twin(self, backend: MemoryBackend) -> Store:
        return RecordStore(backend, "stores/1")


class TestFileStore(StoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Store:
        return FileStore(tmp_path / "record")

    @pytest.fixture
    def twin(self, tmp_path: Path) -> Store:
        return FileStore(tmp_path / "record")


@pytest.fixture
def etcd_space() -> str:
    return f"contract-{os.urandom(6).hex()}"


@pytest.mark.needs_etcd
class TestEtcdV3Store(StoreContract):
    @pytest.fixture
    def store(self, etcd_server: EtcdServer, etcd_space: str) -> Iterator[Store]:
        backend = EtcdV3Backend.open(etcd_server.address(), etcd_space)
        store = EtcdStore(backend, "stores/1")
        yield store
        store.close()
        backend.close()

    @pytest.fixture
    def twin(self, etcd_server: EtcdServer, etcd_space: str) -> Iterator[Store]:
        backend = EtcdV3Backend.open(etcd_server.address(), etcd_space)
        store = EtcdStore(backend, "stores/1")
        yield store
        store.close()
        backend.close()


@pytest.mark.needs_etcd
class TestEtcdV2Store(StoreContract):
    @pytest.fixture
    def store(self, etcd_server: EtcdServer, etcd_space: str) -> Iterator[Store]:
        backend = EtcdV2Backend.open(etcd_server.address(), etcd_space)
        yield EtcdStore(backend, "stores/1")
        backend.close()

    @pytest.fixture
    def twin(self, etcd_server: EtcdServer, etcd_space: str) -> Iterator[Store]:
        backend = EtcdV2Backend.open(etcd_server.address(), etcd_space)
        yield EtcdStore(backend, "stores/1")
        backend.close()
