"""The bench of each test, cleared of whatever a failing test has left on it."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from hpc_elastic.workers import tree
from tests.integration.processes.bench import Bench


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    for each in bench.left():
        tree.send(each, signal.SIGKILL)
