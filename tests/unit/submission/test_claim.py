"""Two submissions into one directory at the same moment: one is taken, the other is refused."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hpc_elastic.errors import UsageError
from hpc_elastic.submission import claim


def test_a_second_one_is_refused_until_the_first_has_let_go(tmp_path: Path) -> None:
    folder = tmp_path / "submission"
    folder.mkdir()

    with (
        claim.held(folder),
        pytest.raises(UsageError, match=r"another submission into .* is under way"),
        claim.held(folder),
    ):
        pass
    with claim.held(folder):
        pass

    assert list(folder.iterdir()) == []


def test_a_claim_is_let_go_also_by_whoever_fails(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), claim.held(tmp_path):
        raise RuntimeError

    assert list(tmp_path.iterdir()) == []


def test_one_that_a_dead_process_has_left_is_taken_over(tmp_path: Path) -> None:
    left = tmp_path / "submitting"
    left.mkdir()
    before_s = left.stat().st_mtime - claim.STALE_S - 1
    os.utime(left, (before_s, before_s))

    with claim.held(tmp_path):
        assert left.exists()

    assert list(tmp_path.iterdir()) == []
