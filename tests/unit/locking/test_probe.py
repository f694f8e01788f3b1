"""What is found of a directory, kept of it, and refused."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from hpc_elastic.locking import probe
from hpc_elastic.locking.exclusive import Way
from hpc_elastic.locking.report import MAX_BYTES, DirectoryReport


def refuse_to_link(source: Path, target: Path) -> None:
    raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))


def test_a_local_directory_gives_everything_and_keeps_nothing(tmp_path: Path) -> None:
    report = probe.examine(tmp_path)

    assert (report.way, report.has_links, report.has_replacing_rename) == (Way.LINK.value, True, True)
    assert report.refusal == ""
    assert report.free_bytes > 0
    assert list(tmp_path.iterdir()) == []


def test_without_hard_links_folders_are_renamed(tmp_path: Path) -> None:
    report = probe.examine(tmp_path, refuse_to_link)

    assert (report.way, report.has_links) == (Way.FOLDER.value, False)
    assert list(tmp_path.iterdir()) == []


def test_a_failure_that_says_nothing_about_the_file_system_is_raised(tmp_path: Path) -> None:
    def is_full(source: Path, target: Path) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(OSError, match="No space"):
        probe.settle(tmp_path, is_full)
    assert list(tmp_path.iterdir()) == []


def test_the_first_report_is_that_of_the_run(tmp_path: Path) -> None:
    first = probe.settle(tmp_path)

    assert probe.settle(tmp_path, refuse_to_link) == first
    assert probe.recorded(tmp_path) == first


@pytest.mark.parametrize("has_links", [True, False])
def test_of_two_that_find_different_ways_at_once_one_counts_for_both(tmp_path: Path, has_links: bool) -> None:
    late = probe.examine(tmp_path, os.link if has_links else refuse_to_link)
    first = probe.settle(tmp_path, refuse_to_link if has_links else os.link)

    assert probe._record(tmp_path, late) == first


def test_a_directory_of_somebody_else_is_refused_with_the_remedy(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a directory away")
    os.chown(tmp_path, 65534, 65534)

    with pytest.raises(probe.DirectoryRefused, match=r"belongs to uid 65534.*HPC_ELASTIC_HOME") as refused:
        probe.settle(tmp_path)
    assert refused.value.report.owner == 65534
    assert probe.recorded(tmp_path) is None


def test_a_directory_that_others_can_write_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o770)

    with pytest.raises(probe.DirectoryRefused, match="mode 0770"):
        probe.settle(tmp_path)


def test_a_report_that_stands_makes_no_directory_of_somebody_else_ones_own(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a directory away")
    probe.settle(tmp_path)
    os.chown(tmp_path, 65534, 65534)

    with pytest.raises(probe.DirectoryRefused, match=r"belongs to uid 65534.*HPC_ELASTIC_HOME"):
        probe.settle(tmp_path)


def test_a_directory_that_was_opened_to_others_since_its_report_is_refused(tmp_path: Path) -> None:
    probe.settle(tmp_path)
    tmp_path.chmod(0o777)

    with pytest.raises(probe.DirectoryRefused, match="mode 0777"):
        probe.settle(tmp_path)


def test_a_report_outlives_its_bytes(tmp_path: Path) -> None:
    report = probe.examine(tmp_path)

    assert DirectoryReport.decode(report.encode()) == report


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"[]",
        b"{}",
        b"\xff\xfe",
        b'{"schema":2}',
        b'{"schema":1}',
        b'{"schema":1,"way":["link"]}',
        b" " * (MAX_BYTES + 1),
    ],
)
def test_what_is_no_report_is_refused_and_counts_as_none(tmp_path: Path, raw: bytes) -> None:
    with pytest.raises(ValueError, match=r"report|JSON|Expecting|decode"):
        DirectoryReport.decode(raw)
    (tmp_path / probe.REPORT).mkdir()
    (tmp_path / probe.REPORT / "value").write_bytes(raw)

    assert probe.recorded(tmp_path) is None
    assert probe.settle(tmp_path).way == Way.LINK.value


def test_a_way_that_this_version_does_not_know_is_refused(tmp_path: Path) -> None:
    raw = probe.examine(tmp_path).encode().replace(b'"way": "link"', b'"way": "magic"')

    with pytest.raises(ValueError, match="magic"):
        DirectoryReport.decode(raw)


def test_the_mount_of_a_directory_is_named_for_people(tmp_path: Path) -> None:
    assert probe.examine(Path("/dev/shm") if os.access("/dev/shm", os.W_OK) else tmp_path).kind
