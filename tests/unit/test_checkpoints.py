"""A checkpoint is whole or does not count, whatever happens while it is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpc_elastic.checkpoints import Checkpoints


def save(directory: Path, step: int, **options: int) -> Path:
    def write(folder: Path) -> None:
        (folder / f"part-{options.get('rank', 0)}.txt").write_text(f"after {step}")

    return Checkpoints(directory, **options).save(step, write)


def test_the_latest_checkpoint_is_the_one_with_the_highest_step(tmp_path: Path) -> None:
    assert Checkpoints(tmp_path / "none").latest() is None
    for step in (9, 100, 20):
        save(tmp_path, step)

    latest = Checkpoints(tmp_path).latest()

    assert latest is not None
    assert (latest.step, latest.world_size) == (100, 1)
    assert (latest.path / "part-0.txt").read_text() == "after 100"


def test_a_checkpoint_counts_once_every_rank_has_saved_its_part(tmp_path: Path) -> None:
    save(tmp_path, 1)
    for rank in (2, 0):
        save(tmp_path, 5, rank=rank, world_size=3)
    assert (latest := Checkpoints(tmp_path).latest()) is not None
    assert latest.step == 1

    save(tmp_path, 5, rank=1, world_size=3)

    # Read by a world of another size.
    latest = Checkpoints(tmp_path, rank=1, world_size=2).latest()
    assert latest is not None
    assert latest.step == 5
    assert sorted(path.name for path in latest.path.glob("part-*")) == [f"part-{n}.txt" for n in (0, 1, 2)]


def test_only_the_newest_whole_ones_are_kept(tmp_path: Path) -> None:
    save(tmp_path, 1, rank=0, world_size=2)  # was cut off: rank 1 never came
    for step in range(2, 8):
        save(tmp_path, step, keep=2)

    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-6-of-1", "step-7-of-1"]


def test_a_newer_one_that_was_cut_off_stays_out_of_the_way(tmp_path: Path) -> None:
    save(tmp_path, 10, keep=1)
    save(tmp_path, 20, rank=0, world_size=2, keep=1)

    assert (latest := Checkpoints(tmp_path).latest()) is not None
    assert latest.step == 10


def test_an_error_while_writing_leaves_nothing_and_is_passed_on(tmp_path: Path) -> None:
    save(tmp_path, 1)

    def fail(folder: Path) -> None:
        (folder / "half").write_text("half")
        raise RuntimeError("the model cannot be written")

    with pytest.raises(RuntimeError, match="cannot be written"):
        Checkpoints(tmp_path).save(2, fail)

    assert [path.name for path in tmp_path.iterdir()] == ["step-1-of-1"]


def test_saving_the_same_step_again_replaces_it(tmp_path: Path) -> None:
    save(tmp_path, 3)

    def fail(folder: Path) -> None:
        raise RuntimeError("not this time")

    with pytest.raises(RuntimeError):
        Checkpoints(tmp_path).save(3, fail)
    assert Checkpoints(tmp_path).latest() is not None

    def write(folder: Path) -> None:
        (folder / "part-0.txt").write_text("again")

    folder = Checkpoints(tmp_path).save(3, write)
    assert (folder / "part-0.txt").read_text() == "again"


def test_folders_below_the_part_are_kept(tmp_path: Path) -> None:
    def write(folder: Path) -> None:
        (folder / "shards" / "a").mkdir(parents=True)
        (folder / "shards" / "a" / "0").write_text("x")

    folder = Checkpoints(tmp_path).save(1, write)

    assert (folder / "shards" / "a" / "0").read_text() == "x"


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"rank": 2, "world_size": 2}, "rank=2, world_size=2: give 0 <= rank < world_size"),
        ({"world_size": 0}, "world_size=0"),
        ({"keep": 0}, "keep=0: give at least 1"),
    ],
)
def test_numbers_without_sense_are_refused(tmp_path: Path, options: dict[str, int], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        Checkpoints(tmp_path, **options)
    with pytest.raises(ValueError, match="step=-1: steps count from 0"):
        Checkpoints(tmp_path).save(-1, lambda folder: None)
