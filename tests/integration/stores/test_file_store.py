"""A file store between processes: nothing is lost, with locks, without, and when one is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from hpc_elastic.stores.file import FileStore
from tests.waiting import wait_until

ROOT = Path(__file__).parents[3]
ADDER = """
import sys
from contextlib import nullcontext
from hpc_elastic.stores.file import FileStore

class Lockless(FileStore):
    def courtesy(self, name):
        return nullcontext()

kind = {"locks": FileStore, "no locks": Lockless}[sys.argv[2]]
store = kind(sys.argv[1])
store.add("ready", 1)
store.get("go", 200)
print(*[store.add("n", 1) for _ in range(int(sys.argv[3]))])
"""


def adders(root: Path, how: str, processes: int, adds: int) -> list[subprocess.Popen[str]]:
    command = [sys.executable, "-c", ADDER, str(root), how, str(adds)]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    return [subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) for _ in range(processes)]


@pytest.mark.parametrize("how", ["locks", "no locks"])
def test_sixteen_processes_that_add_200_times_get_3200_sums(tmp_path: Path, how: str) -> None:
    store = FileStore(tmp_path / "record")
    running = adders(tmp_path / "record", how, processes=16, adds=200)
    wait_until(lambda: store.add("ready", 0) == 16, 120, "all processes are there")
    store.set("go", "")
    sums = [int(word) for one in running for word in one.communicate(timeout=200)[0].split()]

    assert sorted(sums) == list(range(1, 3201))
    assert store.get("n") == b"3200"
    left = [name for name in os.listdir(tmp_path / "record" / "stores" / "0") if name.startswith("k-n")]
    assert len(left) < 10


def test_a_writer_that_is_stopped_and_one_that_is_killed_block_nobody(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "record")
    stopped, killed = adders(tmp_path / "record", "locks", processes=2, adds=10**7)
    try:
        store.set("go", "")
        wait_until(lambda: store.add("n", 0) > 20, 120, "they add")
        stopped.send_signal(signal.SIGSTOP)
        # Until it stands it may add once more.
        os.waitid(os.P_PID, stopped.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        killed.kill()
        killed.communicate()
        begun = store.add("n", 0)

        assert [store.add("n", 1) - begun for _ in range(20)] == sorted({*range(1, 21)})
    finally:
        stopped.kill()
        stopped.communicate()
