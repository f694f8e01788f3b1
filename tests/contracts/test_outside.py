"""An author outside of this project inherits the contracts: a sound backend passes, a broken one is found."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

SOUND = """
from hpc_elastic.backends.memory import MemoryBackend
from hpc_elastic.stores.records import RecordStore


class TheirBackend(MemoryBackend):
    pass


class TheirStore(RecordStore):
    pass
"""
BROKEN = """
import time


class TheirBackend(MemoryBackend):
    def create(self, key, value):
        self.overwrite(key, value)  # the last one wins
        return value


class TheirStore(RecordStore):
    def add(self, key, n):
        value = int(self.get(key, 0) if self.check([key]) else 0) + n
        time.sleep(0.0001)  # the others have their turn
        self.set(key, str(value))  # read, then write: two at once lose one
        return value
"""
TESTS = """

import pytest
from hpc_elastic.testing.contracts.backend import BackendContract
from hpc_elastic.testing.contracts.store import StoreContract


class TestTheirBackend(BackendContract):
    @pytest.fixture
    def backend(self):
        return TheirBackend()

    @pytest.fixture
    def twin(self, backend):
        return backend


class TestTheirStore(StoreContract):
    @pytest.fixture
    def backend(self):
        return MemoryBackend()

    @pytest.fixture
    def store(self, backend):
        return TheirStore(backend, "stores/1")

    @pytest.fixture
    def twin(self, backend):
        return TheirStore(backend, "stores/1")
"""
WANTED = (
    "TestTheirBackend::test_the_first_create_wins_for_ever",
    "TestTheirStore::test_of_sixteen_who_add_at_once_each_gets_a_sum_of_its_own",
)


def checked(folder: Path, text: str) -> subprocess.CompletedProcess[str]:
    """What pytest says of a test file of theirs, in a folder of theirs."""
    (folder / "test_theirs.py").write_text(text + TESTS)
    chosen = [f"test_theirs.py::{name}" for name in WANTED]
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *chosen],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


@pytest.mark.parametrize(("text", "failed"), [(SOUND, 0), (SOUND + BROKEN, 2)], ids=["sound", "broken"])
def test_who_inherits_a_contract_learns_whether_it_is_kept(tmp_path: Path, text: str, failed: int) -> None:
    ended = checked(tmp_path, text)

    assert (f"{failed} failed" in ended.stdout) == bool(failed), ended.stdout
    assert ("2 passed" in ended.stdout) == (failed == 0), ended.stdout
    if failed:
        assert all(f"FAILED test_theirs.py::{name}" in ended.stdout for name in WANTED), ended.stdout
