"""What adapters do after a step: save when it is due, and leave after the agreed one."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpc_elastic.adapters.steps import Steps
from hpc_elastic.worker import Context


class Notified(Context):
    """A rank that is told to stop after `last`, and writes down what it tells."""

    def __init__(self, folder: Path, last: int, *, rank: int = 0, world_size: int = 1) -> None:
        super().__init__(rank=rank, world_size=world_size, checkpoint_dir=str(folder))
        self.last = last
        self.told: list[tuple[str, int]] = []

    def should_stop(self, step: int) -> bool:
        return step >= self.last

    def progress(self, step: int) -> None:
        self.told.append(("progress", step))

    def saved(self, step: int) -> None:
        self.told.append(("saved", step))


def write(folder: Path) -> None:
    (folder / "state").write_text("whole")


def test_a_step_after_which_all_stop_is_saved_and_ends_the_process(tmp_path: Path) -> None:
    ctx = Notified(tmp_path, last=1)
    steps = Steps.of(ctx, all_save=False)

    steps.done(0, write)
    with pytest.raises(SystemExit) as left:
        steps.done(1, write)

    assert left.value.code == 0
    assert ctx.told == [("progress", 0), ("progress", 1), ("saved", 1)]
    last = steps.latest()
    assert last is not None
    assert (last.step, (last.path / "state").read_text()) == (1, "whole")


def test_every_so_many_steps_a_checkpoint_is_made_and_the_last_few_are_kept(tmp_path: Path) -> None:
    steps = Steps.of(Notified(tmp_path, last=100), save_every=3, keep=2, all_save=False)

    for step in range(10):
        steps.done(step, write)

    assert [one.step for one in steps.checkpoints.all()] == [5, 8]


def test_where_rank_0_saves_for_all_another_rank_writes_nothing_and_where_all_save_each_has_a_part(
    tmp_path: Path,
) -> None:
    other = Notified(tmp_path / "one", last=100, rank=1, world_size=2)
    Steps.of(other, all_save=False).save(4, write)
    parts = [
        Steps.of(Notified(tmp_path / "all", last=100, rank=rank, world_size=2), all_save=True)
        for rank in (0, 1)
    ]
    parts[1].save(4, lambda folder: (folder / "part-1").write_text("1"))
    half = parts[0].latest()
    parts[0].save(4, lambda folder: (folder / "part-0").write_text("0"))
    whole = parts[0].latest()

    assert other.told == [("saved", 4)]
    assert [*(tmp_path / "one").iterdir()] == []
    assert half is None, "the part of rank 0 is missing"
    assert whole is not None
    assert {path.name for path in whole.path.glob("part-*")} == {"part-0", "part-1"}


def test_a_negative_number_of_steps_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="save_every=-1"):
        Steps.of(Notified(tmp_path, last=0), save_every=-1, all_save=False)
