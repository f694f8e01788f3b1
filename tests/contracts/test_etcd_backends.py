"""The contract of all backends, kept by both etcd backends over a real server, and with a ledger."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from hpc_elastic.backends.base import Backend
from hpc_elastic.backends.etcd_v2 import EtcdV2Backend
from hpc_elastic.backends.etcd_v3 import EtcdV3Backend
from hpc_elastic.backends.file import FileBackend
from hpc_elastic.rendezvous.mirrored import MirroredBackend
from hpc_elastic.testing.contracts.backend import BackendContract
from hpc_elastic.testing.etcd_server import EtcdServer

pytestmark = pytest.mark.needs_etcd


@pytest.fixture
def space() -> str:
    return f"contract-{os.urandom(6).hex()}"


class TestEtcdV3Backend(BackendContract):
    @pytest.fixture
    def backend(self, etcd_server: EtcdServer, space: str) -> Iterator[Backend]:
        opened = EtcdV3Backend.open(etcd_server.address(), space)
        yield opened
        opened.close()

    @pytest.fixture
    def twin(self, etcd_server: EtcdServer, space: str) -> Iterator[Backend]:
        opened = EtcdV3Backend.open(etcd_server.address(), space)
        yield opened
        opened.close()


class TestEtcdV2Backend(BackendContract):
    @pytest.fixture
    def backend(self, etcd_server: EtcdServer, space: str) -> Iterator[Backend]:
        opened = EtcdV2Backend.open(etcd_server.address(), space)
        yield opened
        opened.close()

    @pytest.fixture
    def twin(self, etcd_server: EtcdServer, space: str) -> Iterator[Backend]:
        opened = EtcdV2Backend.open(etcd_server.address(), space)
        yield opened
        opened.close()


class TestMirroredBackend(BackendContract):
    @pytest.fixture
    def backend(self, etcd_server: EtcdServer, space: str, tmp_path: Path) -> Iterator[Backend]:
        live = EtcdV3Backend.open(etcd_server.address(), space)
        opened = MirroredBackend.open(live, FileBackend(tmp_path / "record"))
        yield opened
        opened.close()

    @pytest.fixture
    def twin(self, etcd_server: EtcdServer, space: str, tmp_path: Path) -> Iterator[Backend]:
        live = EtcdV3Backend.open(etcd_server.address(), space)
        opened = MirroredBackend.open(live, FileBackend(tmp_path / "record"))
        yield opened
        opened.close()
