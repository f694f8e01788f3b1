"""What a directory gives, as findings."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from hpc_elastic.doctor import place
from hpc_elastic.doctor.finding import Level
from hpc_elastic.locking import probe
from hpc_elastic.locking.report import DirectoryReport
from hpc_elastic.values import replace


@pytest.fixture
def found(tmp_path: Path) -> DirectoryReport:
    return replace(probe.examine(tmp_path), kind="nfs4", flock="works", create_s=0.01, free_bytes=1 << 40)


def test_a_good_directory_has_nothing_to_note(found: DirectoryReport) -> None:
    (only,) = place.judge(replace(found, free_files=1 << 20), 0.1)

    assert only.level is Level.FINE
    assert only.fact.endswith("(nfs4): exclusive create by link")


@pytest.mark.parametrize(
    ("change", "level", "fact"),
    [
        ({"kind": "ext4"}, Level.NOTE, "ext4 is a local file system"),
        ({"flock": "ENOLCK"}, Level.NOTE, "flock: ENOLCK"),
        ({"create_s": 0.4}, Level.NOTE, "a durable file takes 0.40 s"),
        ({"free_bytes": 1 << 20}, Level.PROBLEM, "1 MiB are free"),
        ({"free_files": 12}, Level.PROBLEM, "12 more files fit"),
    ],
)
def test_what_is_lacking_is_named(
    found: DirectoryReport, change: dict[str, Any], level: Level, fact: str
) -> None:
    lacking = list(place.judge(replace(replace(found, free_files=1 << 20), **change), 0.0))[1:]

    assert [(one.level, one.fact) for one in lacking] == [(level, fact)]


def test_a_refused_directory_is_one_problem_with_its_remedy(found: DirectoryReport) -> None:
    (only,) = place.judge(replace(found, refusal="others could change the run"), 0.0)

    assert (only.level, only.meaning) == (Level.PROBLEM, "others could change the run")
    assert "HPC_ELASTIC_HOME" in only.do


def test_a_clock_that_differs_is_a_note(found: DirectoryReport) -> None:
    facts = [one.fact for one in place.judge(found, -75.0)]

    assert "the file server's clock is 75 s behind this one" in facts


def test_a_look_leaves_nothing_behind_also_where_the_directory_is_not_made_yet(tmp_path: Path) -> None:
    found = place.look(tmp_path / "runs" / "not" / "made")

    assert found[0].fact.startswith(str(tmp_path))
    assert list(tmp_path.iterdir()) == []
    assert asdict(found[0])["level"] is Level.FINE


def test_a_directory_that_other_nodes_were_seen_to_see_is_not_doubted(found: DirectoryReport) -> None:
    local = replace(found, kind="ext4", free_files=1 << 20)

    assert [one.level for one in place.judge(local, 0.0, is_shared=True)] == [Level.FINE]
