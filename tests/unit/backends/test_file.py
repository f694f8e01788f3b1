"""What the file backend promises beyond the contract."""

from __future__ import annotations

import errno
import os
import shutil
import stat
from pathlib import Path

import pytest

from hpc_elastic.backends.economy import MAX_VALUE_BYTES
from hpc_elastic.backends.file import FileBackend
from hpc_elastic.errors import BackendGone, BackendRefused, BackendUnavailable


def test_reading_where_nothing_is_makes_nothing(tmp_path: Path) -> None:
    backend = FileBackend(tmp_path / "record")

    assert backend.read("rounds/1") is None
    assert backend.names("rounds") == frozenset()
    assert not (tmp_path / "record").exists()


def test_the_record_is_private_to_its_owner(tmp_path: Path) -> None:
    FileBackend(tmp_path / "record").create("rounds/1", b"x")

    modes = [stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "record").rglob("*")]
    assert stat.S_IMODE((tmp_path / "record").stat().st_mode) == 0o700
    assert not any(mode & 0o077 for mode in modes)


def test_no_temporary_is_left_behind(tmp_path: Path) -> None:
    backend = FileBackend(tmp_path / "record")
    backend.create("rounds/1", b"x")
    backend.create("rounds/1", b"y")
    backend.overwrite("nodes/a", b"x")

    assert list((tmp_path / "record" / ".tmp").iterdir()) == []


def test_a_record_that_was_removed_is_gone_for_good_and_is_not_made_again(tmp_path: Path) -> None:
    backend = FileBackend(tmp_path / "record")
    backend.create("rounds/1", b"x")
    shutil.rmtree(tmp_path / "record")

    for act in (
        lambda: backend.read("rounds/1"),
        lambda: backend.names("rounds"),
        lambda: backend.create("rounds/2", b"x"),
        lambda: backend.overwrite("nodes/a", b"x"),
    ):
        with pytest.raises(BackendGone, match="no longer there"):
            act()
    assert not (tmp_path / "record").exists()


def test_a_path_that_is_a_file_is_named_with_its_errno(tmp_path: Path) -> None:
    (tmp_path / "record").write_text("not a directory")

    for path in (tmp_path / "record", tmp_path / "record" / "below"):
        with pytest.raises(BackendRefused, match=r"(EEXIST|ENOTDIR).*choose another directory"):
            FileBackend(path).create("rounds/1", b"x")


def test_what_the_same_name_will_always_answer_is_not_tried_again(tmp_path: Path) -> None:
    (tmp_path / "round").symlink_to(tmp_path / "round")

    with pytest.raises(BackendRefused, match=r"(ELOOP|EEXIST).*choose another directory"):
        FileBackend(tmp_path / "round").create("rounds/1", b"x")
    with pytest.raises(BackendRefused, match=r"ENAMETOOLONG.*take a shorter"):
        FileBackend(tmp_path / "record").create("rounds/" + "1" * 300, b"x")


def test_a_value_that_could_not_be_read_again_is_not_written(tmp_path: Path) -> None:
    backend, large = FileBackend(tmp_path / "record"), bytes(MAX_VALUE_BYTES + 1)

    for write in (backend.create, backend.overwrite):
        with pytest.raises(BackendRefused, match="a value has 268435456 at most"):
            write("stores/1/k", large)
    assert backend.read("stores/1/k") is None


def test_a_pipe_in_the_place_of_a_record_holds_up_nobody(tmp_path: Path) -> None:
    backend = FileBackend(tmp_path / "record")
    backend.create("rounds/1", b"x")
    os.mkfifo(tmp_path / "record" / "rounds" / "2")

    assert backend.read("rounds/2") == b""


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_directory_that_cannot_be_written_names_the_next_move(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)

    with pytest.raises(BackendUnavailable, match=r"EACCES.*check the owner"):
        FileBackend(tmp_path / "record").create("rounds/1", b"x")


def refuse_to_link(source: Path, target: Path) -> None:
    raise OSError(errno.EPERM, os.strerror(errno.EPERM))


def test_a_claim_whose_owner_died_before_it_was_published_is_finished_with_its_own_bytes(
    tmp_path: Path,
) -> None:
    root = tmp_path / "record"
    backend = FileBackend(root, refuse_to_link)
    backend.create("rounds/1", b"x")
    (root / "rounds" / "2~").mkdir()
    (root / "rounds" / "2~" / "value").write_bytes(b"the dead one's")

    assert backend.create("rounds/2", b"mine") == b"the dead one's"
    assert backend.read("rounds/2") == b"the dead one's"


def test_a_claim_is_no_name_of_a_record(tmp_path: Path) -> None:
    backend = FileBackend(tmp_path / "record", refuse_to_link)
    backend.create("rounds/1", b"x")

    assert (tmp_path / "record" / "rounds" / "1~").is_dir()
    assert backend.names("rounds") == {"1"}


def test_a_removed_key_can_be_created_anew_without_hard_links(tmp_path: Path) -> None:
    backend = FileBackend(tmp_path / "record", refuse_to_link)
    backend.create("stores/1/a", b"old")
    backend.remove("stores/1/a")

    assert backend.create("stores/1/a", b"new") == b"new"
    assert backend.read("stores/1/a") == b"new"


def test_all_agents_of_a_run_create_in_the_way_that_the_first_has_found(tmp_path: Path) -> None:
    FileBackend(tmp_path / "record").create("rounds/1", b"x")
    odd = FileBackend(tmp_path / "record", refuse_to_link)

    assert odd.report().way == "link"
    with pytest.raises(BackendUnavailable, match=r"EPERM.*give all nodes the same mount"):
        odd.create("rounds/2", b"x")
    assert odd.read("rounds/2") is None


def test_a_link_that_fails_once_says_nothing_about_the_file_system(tmp_path: Path) -> None:
    calls = []

    def fails_once(source: Path, target: Path) -> None:
        calls.append(target)
        if len(calls) == 1:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        os.link(source, target)

    backend = FileBackend(tmp_path / "record", fails_once)

    with pytest.raises(BackendUnavailable, match="EIO"):
        backend.create("rounds/1", b"x")
    assert backend.create("rounds/1", b"x") == b"x"
    assert backend.report().has_links


def test_a_server_that_does_not_say_whether_the_record_is_there_has_not_said_that_it_is_gone(
    tmp_path: Path,
) -> None:
    backend = FileBackend(tmp_path / ("x" * 300))
    backend._is_prepared = True

    with pytest.raises(BackendUnavailable, match="ENAMETOOLONG") as unknown:
        backend.read("rounds/1")
    assert not isinstance(unknown.value, BackendGone)


def test_a_link_that_excludes_nobody_counts_as_none(tmp_path: Path) -> None:
    def replaces(source: Path, target: Path) -> None:
        target.unlink(missing_ok=True)
        os.link(source, target)

    backend = FileBackend(tmp_path / "record", replaces)

    # Renaming a folder works here, so that way is taken: a link that excludes nobody is none.
    assert backend.report().way == "folder"
