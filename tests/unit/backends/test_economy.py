"""What an idle node saves must not cost it a change: beats in place, and looks by stamps."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpc_elastic.backends.economy import BeatInPlace, Glance, Place, Stamps, make_look, only_change
from hpc_elastic.backends.file import FileBackend


@pytest.mark.parametrize(
    ("old", "new", "place"),
    [
        (b'{"beat":11}', b'{"beat":12}', 9),
        (b'{"beat":19}', b'{"beat":20}', None),
        (b'{"beat":9}', b'{"beat":10}', None),
        (b"same", b"same", None),
        (b"", b"x", None),
    ],
)
def test_only_a_change_of_one_byte_is_made_in_place(old: bytes, new: bytes, place: int | None) -> None:
    assert only_change(old, new) == place


def test_a_beat_keeps_the_file_and_a_change_of_more_replaces_it(tmp_path: Path) -> None:
    backend = FileBackend(tmp_path)
    path = tmp_path / "nodes" / "n1"
    inodes = []
    for beat in (b"8", b"9", b"10", b"11", b"19", b"20"):
        backend.overwrite("nodes/n1", b"beat " + beat)
        assert backend.read("nodes/n1") == b"beat " + beat
        inodes.append(path.stat().st_ino)

    assert inodes[0] == inodes[1]
    assert inodes[2] == inodes[3] == inodes[4]
    assert inodes[1] != inodes[2]
    backend.close()


def test_a_beat_after_close_is_written_all_the_same(tmp_path: Path) -> None:
    backend = FileBackend(tmp_path)
    backend.overwrite("nodes/n1", b"1")
    backend.overwrite("nodes/n1", b"2")
    backend.close()

    backend.overwrite("nodes/n1", b"3")

    assert backend.read("nodes/n1") == b"3"


def test_a_beat_that_cannot_be_written_in_place_asks_for_a_whole_file(tmp_path: Path) -> None:
    beat = BeatInPlace()
    beat.note(b"1")

    assert not beat.write(tmp_path / "removed", b"2")
    assert not beat.write(tmp_path / "removed", b"3")


def test_a_key_that_many_overwrite_is_never_changed_in_place(tmp_path: Path) -> None:
    one, other = FileBackend(tmp_path), FileBackend(tmp_path)
    one.overwrite("bell", b"1")
    other.overwrite("bell", b"2")

    one.overwrite("bell", b"3")

    assert other.read("bell") == b"3"


class Shelf:
    """One file: counts how often it is read and looked at."""

    def __init__(self) -> None:
        self.value = b"a"
        self.stamps: Stamps | None = (1,)
        self.reads = 0

    def read(self, path: Place) -> bytes:
        self.reads += 1
        return self.value

    def look(self, path: Place) -> Stamps | None:
        return self.stamps


def test_a_file_that_has_stood_for_a_while_is_read_no_more_until_it_looks_different() -> None:
    shelf = Shelf()
    glance = Glance(shelf.read, shelf.look)
    for second in range(10):
        assert glance.read(Path("bell"), second) == b"a"
    assert shelf.reads == 4

    shelf.value, shelf.stamps = b"b", (2,)

    assert glance.read(Path("bell"), 10.0) == b"b"


def test_a_file_that_is_replaced_within_one_step_of_its_stamps_is_seen() -> None:
    shelf = Shelf()
    glance = Glance(shelf.read, shelf.look)
    for second, value in enumerate((b"a", b"b", b"c", b"d", b"e")):
        shelf.value = value  # the stamps stay what they were: the server counts in whole seconds

        assert glance.read(Path("bell"), second) == value


def test_without_stamps_every_look_reads() -> None:
    shelf = Shelf()
    shelf.stamps = None
    glance = Glance(shelf.read, shelf.look)
    for second in range(10):
        glance.read(Path("bell"), second)

    assert shelf.reads == 10


def test_a_look_tells_a_file_from_the_one_that_replaces_it(tmp_path: Path) -> None:
    look = make_look()
    bell, new = tmp_path / "bell", tmp_path / "new"
    bell.write_bytes(b"1")
    before, again = look(bell), look(bell)
    new.write_bytes(b"2")
    new.replace(bell)

    assert before == again
    assert before is None or look(bell) != before
    assert look(tmp_path / "missing") is None


def test_a_look_says_what_the_system_says(tmp_path: Path) -> None:
    status = tmp_path.stat()
    said = (status.st_nlink, status.st_ino, status.st_size, status.st_ctime_ns, status.st_mtime_ns)

    assert make_look()(tmp_path) in (said, None)
