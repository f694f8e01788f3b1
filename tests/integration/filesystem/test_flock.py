"""What `flock` is worth is found out in bounded time, and stores count right whatever it is."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from hpc_elastic.locking import probe
from hpc_elastic.locking.locks import HANGS, NO_EXCLUSION, WORKS, ask_flock
from hpc_elastic.stores.file import FileStore
from hpc_elastic.testing.passthrough.faults import FLOCK_HANGS, FLOCK_LOCAL, FLOCK_SHARED, MountFaults
from hpc_elastic.testing.passthrough.rehearsal import count_together
from tests.integration.filesystem.mounts import two_mounts

pytestmark = pytest.mark.needs_fuse

LONG_S = 60.0

# What a mount does, what one mount finds of it, and what two find.
KINDS = [
    (FLOCK_SHARED, WORKS, WORKS),
    (FLOCK_LOCAL, WORKS, NO_EXCLUSION),
    ("ENOSYS", "ENOSYS", "ENOSYS"),
    ("ENOLCK", "ENOLCK", "ENOLCK"),
    ("EOPNOTSUPP", "ENOTSUP", "ENOTSUP"),  # two names of one number
    (FLOCK_HANGS, HANGS, HANGS),
]


@pytest.mark.parametrize(("kind", "alone", "together"), KINDS, ids=[kind for kind, _, _ in KINDS])
def test_a_lock_is_asked_for_in_bounded_time(tmp_path: Path, kind: str, alone: str, together: str) -> None:
    with two_mounts(tmp_path, MountFaults(flock=kind)) as pair:
        began_s = time.monotonic()
        patience_s = 2.0 if kind == FLOCK_HANGS else LONG_S  # elsewhere a slow answer is one all the same
        found = (
            ask_flock(pair.one.path, patience_s=patience_s),
            ask_flock(pair.one.path, pair.other.path, patience_s=patience_s),
        )

    assert found == (alone, together)
    assert time.monotonic() - began_s < LONG_S


@pytest.mark.parametrize("kind", [kind for kind, _, _ in KINDS])
def test_sixteen_writers_on_two_mounts_lose_no_count(tmp_path: Path, kind: str) -> None:
    with two_mounts(tmp_path, MountFaults(flock=kind)) as pair:
        told = count_together(pair.paths("store"), writers=16, each=3)

    assert sorted(told) == list(range(1, 49))


def test_the_answer_is_kept_so_that_only_one_process_waits_for_a_lock_that_hangs(tmp_path: Path) -> None:
    with two_mounts(tmp_path, MountFaults(flock=FLOCK_HANGS)) as pair:
        here, there = pair.paths("store")
        FileStore(here).set("a", b"1")
        assert probe.settle_flock(here, patience_s=0.3) == HANGS
        began_s = time.monotonic()

        assert probe.settle_flock(there, patience_s=LONG_S) == HANGS
        assert time.monotonic() - began_s < LONG_S / 2


def test_counts_are_right_where_calls_fail_at_random(tmp_path: Path) -> None:
    errors = {"ESTALE": 0.004, "EIO": 0.003, "ENOSPC": 0.002, "EDQUOT": 0.002}
    with two_mounts(tmp_path, MountFaults(errors=errors, seed=5)) as pair:
        told = count_together(pair.paths("store"), writers=8, each=3)

    assert sorted(told) == list(range(1, 25))
