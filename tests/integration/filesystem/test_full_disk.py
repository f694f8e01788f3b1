"""A disk that is full in the middle of a write: what was there stays, and a run goes on afterwards."""

from __future__ import annotations

import errno
import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from hpc_elastic.backends.file import FileBackend
from hpc_elastic.errors import BackendUnavailable
from hpc_elastic.rendezvous.membership import Membership
from hpc_elastic.rendezvous.record import Outcome
from hpc_elastic.rendezvous.standing import JobStart, Seat, Settings
from hpc_elastic.stores.file import FileStore
from tests.waiting import wait_until

_SIZE_BYTES = 512 * 1024
_TIME_S = 60.0


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of half a megabyte."""
    place = tmp_path / "disk"
    place.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={_SIZE_BYTES},mode=0700", "tmpfs", str(place)],
        capture_output=True,
        check=False,
    )
    if made.returncode != 0:
        pytest.skip("needs the right to mount")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def fill(disk: Path) -> Path:
    """Use up all the space there is; the file that does so."""
    path = disk / "filler"
    with open(path, "ab", buffering=0) as filler, suppress(OSError):
        while True:
            filler.write(b"x" * 512)
    return path


def test_a_value_that_does_not_fit_leaves_the_old_one_and_nothing_else(disk: Path) -> None:
    backend = FileBackend(disk / "record")
    backend.overwrite("nodes/1-a-0", b"old")
    filler = fill(disk)
    os.truncate(filler, filler.stat().st_size - 8192)  # room for the first two pages of it

    for write in (backend.create, backend.overwrite):
        with pytest.raises(BackendUnavailable, match=r"ENOSPC.*free space there, or choose"):
            write("nodes/1-a-0" if write == backend.overwrite else "rounds/1", b"n" * 100_000)

    assert backend.read("nodes/1-a-0") == b"old"
    assert backend.read("rounds/1") is None
    assert backend.names("rounds") == frozenset()
    assert os.listdir(disk / "record" / ".tmp") == []
    filler.unlink()
    assert backend.create("rounds/1", b"n" * 100_000) == b"n" * 100_000


def test_a_store_loses_nothing_to_a_full_disk(disk: Path) -> None:
    store = FileStore(disk / "store", timeout=0.5)
    assert store.add("count", 1) == 1
    filler = fill(disk)

    with pytest.raises(BackendUnavailable, match="ENOSPC"):
        store.set("large", b"n" * 100_000)
    with suppress(BackendUnavailable):
        store.add("count", 1)

    filler.unlink()
    assert store.add("count", 1) in (2, 3)
    assert not store.check(["large"])


def test_a_disk_that_is_full_for_a_while_disturbs_no_run(disk: Path) -> None:
    rules = Settings(
        2, 2, 2, heartbeat_s=1.0, last_call_s=0.3, join_window_s=0.1, store_lost_s=60.0, allow_loopback=True
    )
    members = [
        Membership.open(
            FileBackend(disk / "run"), JobStart("c", "1"), Seat(f"n{i}", i, "h", "127.0.0.1", 1), rules
        )
        for i in (0, 1)
    ]
    for one in members:
        one.start()
        one.join()
    wait_until(lambda: all(one.standing().round for one in members), _TIME_S, "the round starts")

    filler = fill(disk)
    with pytest.raises(OSError, match="No space left") as full:
        (disk / "more").write_bytes(b"x" * _SIZE_BYTES)  # what keepers may have freed does not do for it
    assert full.value.errno == errno.ENOSPC
    assert not threading.Event().wait(4 * rules.heartbeat_s)
    filler.unlink()
    for one in members:
        one.mark_done()

    wait_until(lambda: all(one.standing().closed for one in members), _TIME_S, "the run is done")
    standings = [one.standing() for one in members]
    for one in members:
        one.leave(Outcome.DONE, "done", 5.0)
        one.close()
    assert [one.error for one in standings] == [None, None]
    assert {one.round.number for one in standings if one.round} == {1}
