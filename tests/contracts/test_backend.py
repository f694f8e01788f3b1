"""One contract, every backend."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from hpc_elastic.backends.base import Backend
from hpc_elastic.backends.file import FileBackend
from hpc_elastic.backends.memory import MemoryBackend
from hpc_elastic.testing.contracts.backend import BackendContract


class TestMemoryBackend(BackendContract):
    @pytest.fixture
    def backend(self) -> Backend:
        return MemoryBackend()

    @pytest.fixture
    def twin(self, backend: Backend) -> Backend:
        return backend


class TestFileBackend(BackendContract):
    @pytest.fixture
    def backend(self, tmp_path: Path) -> Backend:
        return FileBackend(tmp_path / "record")

    @pytest.fixture
    def twin(self, tmp_path: Path) -> Backend:
        return FileBackend(tmp_path / "record")


def refuse_to_link(source: Path, target: Path) -> None:
    raise OSError(errno.EPERM, os.strerror(errno.EPERM))


class TestFileBackendWithoutHardLinks(BackendContract):
    @pytest.fixture
    def backend(self, tmp_path: Path) -> Backend:
        return FileBackend(tmp_path / "record", refuse_to_link)

    @pytest.fixture
    def twin(self, tmp_path: Path) -> Backend:
        return FileBackend(tmp_path / "record", refuse_to_link)
