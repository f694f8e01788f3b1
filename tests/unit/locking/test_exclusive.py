"""Both ways of creating exclusively: one wins, everybody gets its bytes, and a second try is a win."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from hpc_elastic.locking import exclusive

Create = Callable[[Path, Path], bytes]


def by_link(temporary: Path, path: Path) -> bytes:
    exclusive.by_link(temporary, path)
    return path.read_bytes()


WAYS = pytest.mark.parametrize("create", [by_link, exclusive.by_folder])


def draft(folder: Path, name: str, value: bytes) -> Path:
    """A finished private file."""
    path = folder / f".{name}"
    exclusive.write_new(path, value, flush=False)
    return path


@WAYS
def test_the_first_one_wins_and_the_second_gets_its_bytes(tmp_path: Path, create: Create) -> None:
    assert create(draft(tmp_path, "a", b"first"), tmp_path / "name") == b"first"
    assert create(draft(tmp_path, "b", b"second"), tmp_path / "name") == b"first"
    assert (tmp_path / "name").read_bytes() == b"first"


@WAYS
def test_of_many_at_once_one_wins(tmp_path: Path, create: Create) -> None:
    for number in range(10):
        line = threading.Barrier(8)
        told: list[bytes] = []

        def act(writer: int, line: threading.Barrier, told: list[bytes], number: int) -> None:
            temporary = draft(tmp_path, f"{number}-{writer}", f"{writer}".encode())
            line.wait(60)
            told.append(create(temporary, tmp_path / f"name{number}"))

        threads = [threading.Thread(target=act, args=(w, line, told, number)) for w in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)

        assert len(told) == 8
        assert set(told) == {(tmp_path / f"name{number}").read_bytes()}


def test_whoever_comes_later_publishes_for_a_winner_that_died(tmp_path: Path) -> None:
    (tmp_path / "name~").mkdir()
    (tmp_path / "name~" / exclusive.VALUE).write_bytes(b"the dead one's")

    assert exclusive.by_folder(draft(tmp_path, "a", b"mine"), tmp_path / "name") == b"the dead one's"
    assert (tmp_path / "name").read_bytes() == b"the dead one's"


def test_a_folder_that_is_still_empty_is_no_claim(tmp_path: Path) -> None:
    """As a removal leaves it in between."""
    (tmp_path / "name~").mkdir()

    assert exclusive.by_folder(draft(tmp_path, "a", b"mine"), tmp_path / "name") == b"mine"


def test_a_new_file_is_private_and_never_an_old_one(tmp_path: Path) -> None:
    exclusive.write_new(tmp_path / "a", b"x" * 100_000, flush=True)

    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "a").stat().st_size == 100_000
    with pytest.raises(FileExistsError):
        exclusive.write_new(tmp_path / "a", b"y", flush=False)
