"""A run directory is private and ours, or it is refused before anything is created."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from hpc_elastic.agent.rundir import RunDirectory, check_logs
from hpc_elastic.errors import RunDirectoryError, UsageError


def test_a_missing_directory_is_made_private_with_its_parents(tmp_path: Path) -> None:
    made = RunDirectory.prepare(tmp_path / "home" / "run")

    assert stat.S_IMODE(made.path.stat().st_mode) == 0o700
    assert made.record.is_dir()
    assert made.checkpoints.is_dir()


@pytest.mark.parametrize("umask", [0o000, 0o002, 0o077])
def test_whatever_the_umask_nobody_else_can_change_what_leads_to_the_run(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        made = RunDirectory.prepare(tmp_path / "a" / "b" / "run")
        made.keep_logs_in(tmp_path / "logs" / "mine", attempt=1)
    finally:
        os.umask(before)

    folders = [path for path in tmp_path.rglob("*") if path.is_dir()]
    assert {path.name: oct(path.stat().st_mode & 0o022) for path in folders} == {
        path.name: oct(0) for path in folders
    }
    assert stat.S_IMODE(made.path.stat().st_mode) == 0o700


def test_preparing_again_changes_nothing(tmp_path: Path) -> None:
    RunDirectory.prepare(tmp_path / "run")

    assert RunDirectory.prepare(tmp_path / "run") == RunDirectory(tmp_path / "run")


def test_checking_creates_nothing(tmp_path: Path) -> None:
    RunDirectory.check(tmp_path / "a" / "b")

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("below", ["", "run"])
def test_a_path_on_a_file_is_refused(tmp_path: Path, below: str) -> None:
    file = tmp_path / "file"
    file.touch()

    with pytest.raises(RunDirectoryError, match=f"{file} is not a directory; choose another"):
        RunDirectory.check(file / below)


def test_a_directory_that_others_can_write_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run"
    path.mkdir()
    path.chmod(0o770)

    with pytest.raises(RunDirectoryError, match=f"mode 0770.*chmod go-w {path}"):
        RunDirectory.check(path)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
def test_a_directory_of_another_user_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run"
    path.mkdir()
    os.chown(path, 65534, 65534)

    with pytest.raises(RunDirectoryError, match="belongs to uid 65534, not to you"):
        RunDirectory.check(path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_directory_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)

    with pytest.raises(RunDirectoryError, match="is not writable"):
        RunDirectory.check(tmp_path / "run")


def test_a_place_where_nothing_can_be_created_is_refused() -> None:
    with pytest.raises(RunDirectoryError, match=r"cannot be created|is not writable"):
        RunDirectory.prepare(Path("/proc/run"))


def test_a_name_that_no_file_system_takes_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunDirectoryError, match="File name too long; choose another"):
        RunDirectory.check(tmp_path / ("x" * 300))


def test_a_link_of_ones_own_to_a_directory_of_ones_own_is_followed(tmp_path: Path) -> None:
    (tmp_path / "scratch").mkdir(mode=0o700)
    (tmp_path / "run").symlink_to(tmp_path / "scratch")

    RunDirectory.prepare(tmp_path / "run")

    assert (tmp_path / "scratch" / "record").is_dir()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a link away")
def test_a_link_that_somebody_else_has_made_is_refused_wherever_it_leads(tmp_path: Path) -> None:
    (tmp_path / "scratch").mkdir(mode=0o700)
    (tmp_path / "run").symlink_to(tmp_path / "scratch")
    os.lchown(tmp_path / "run", 65534, 65534)

    with pytest.raises(RunDirectoryError, match="symbolic link that uid 65534 has made"):
        RunDirectory.prepare(tmp_path / "run")
    assert list((tmp_path / "scratch").iterdir()) == []


def test_a_link_that_leads_to_others_directories_is_judged_by_where_it_leads(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    (tmp_path / "run").symlink_to(tmp_path / "open")

    with pytest.raises(RunDirectoryError, match="mode 0777"):
        RunDirectory.check(tmp_path / "run")


def test_a_link_that_leads_nowhere_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run").symlink_to(tmp_path / "nowhere")

    with pytest.raises(RunDirectoryError, match="cannot be created"):
        RunDirectory.prepare(tmp_path / "run")


@pytest.mark.parametrize("mode", [0o702, 0o720, 0o777])
def test_write_permission_of_others_in_any_form_is_refused(tmp_path: Path, mode: int) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run").chmod(mode)

    with pytest.raises(RunDirectoryError, match="others could change the run"):
        RunDirectory.prepare(tmp_path / "run")
    assert list((tmp_path / "run").iterdir()) == []


def test_logs_that_another_node_keeps_where_this_one_has_nothing_are_refused_with_both_places(
    tmp_path: Path,
) -> None:
    directory = RunDirectory.prepare(tmp_path / "run")
    directory.keep_logs_in(tmp_path / "disk of n0", 1)
    (tmp_path / "disk of n0" / "1").rmdir()  # n1 does not see it

    with pytest.raises(OSError, match="give all nodes the same --log-dir") as refused:
        directory.keep_logs_in(tmp_path / "disk of n1", 1)

    assert f"lie in {tmp_path}/disk of n0/1" in str(refused.value)
    assert f"this node, whose --log-dir is {tmp_path}/disk of n1" in str(refused.value)


@pytest.mark.parametrize("bad", ["/proc/self/logs", "/dev/null", "/dev/null/logs", "/" + "a" * 5000])
def test_a_folder_where_no_logs_can_lie_is_refused_before_anything_is_made(bad: str) -> None:
    with pytest.raises(UsageError, match=f"^--log-dir {bad[:20]}.*choose another"):
        check_logs(Path(bad))


def test_a_folder_for_logs_that_does_not_exist_yet_is_fine_and_not_made(tmp_path: Path) -> None:
    assert check_logs(tmp_path / "a" / "b") == tmp_path / "a" / "b"
    assert list(tmp_path.iterdir()) == []
