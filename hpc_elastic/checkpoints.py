"""Checkpoints that are whole or not there, and of which the last few are kept.

    checkpoints = Checkpoints(ctx.checkpoint_dir, rank=ctx.rank, world_size=ctx.world_size)
    if (last := checkpoints.latest()) is not None:
        load(last.path / "model.pt"); start = last.step + 1
    ...
    checkpoints.save(step, lambda folder: torch.save(state, folder / "model.pt"))

Every rank that takes part calls `save` with the same step and its own files; a rank 0 that saves for all
has `world_size=1`. There is no collective and no waiting: each rank leaves a mark once its files are safe,
and a checkpoint counts when all its marks are there. One that was cut off is never the latest, and never
harms the one before. Standard library only.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

_NAME: Final = re.compile(r"step-([0-9]{1,18})-of-([0-9]{1,9})")
_MARK: Final = ".saved-{}"
_WORK: Final = ".saving-{}"
KEEP: Final = 3


class Checkpoint(NamedTuple):
    """A whole checkpoint: the state after `step`, in the folder `path`, by `world_size` ranks."""

    step: int
    path: Path
    world_size: int


class Checkpoints:
    """The checkpoints in one directory, seen by `rank` of the `world_size` ranks that save.

    `keep` is how many whole ones stay; older ones, and what was cut off before them, are removed by rank 0
    after its next save. Raises `ValueError` for numbers that make no sense.
    """

    def __init__(
        self, directory: str | os.PathLike[str], *, rank: int = 0, world_size: int = 1, keep: int = KEEP
    ) -> None:
        if world_size < 1 or not 0 <= rank < world_size:
            raise ValueError(f"rank={rank}, world_size={world_size}: give 0 <= rank < world_size")
        if keep < 1:
            raise ValueError(f"keep={keep}: give at least 1, or nothing could be loaded")
        self.directory = Path(directory)
        self.rank = rank
        self.world_size = world_size
        self.keep = keep

    def save(self, step: int, write: Callable[[Path], object]) -> Path:
        """Save this rank's part of the state after `step`; returns the folder once the part is on disk.

        `write(folder)` puts files into an empty folder of this rank; their names must differ from those of
        other ranks. Whatever it raises is raised here, and nothing of it stays. `OSError` where the file
        system refuses: the checkpoints before are untouched.
        """
        if step < 0:
            raise ValueError(f"step={step}: steps count from 0")
        folder = self.directory / f"step-{step}-of-{self.world_size}"
        work = folder / _WORK.format(self.rank)
        folder.mkdir(parents=True, exist_ok=True)
        _remove(work)
        work.mkdir()
        try:
            write(work)
            (folder / _MARK.format(self.rank)).unlink(missing_ok=True)  # an earlier part of the same step
            _move_all(work, folder)
            _make_mark(folder / _MARK.format(self.rank))
        except BaseException:
            _remove(work)
            _remove_if_empty(folder)
            raise
        _remove(work)
        if self.rank == 0:
            self.prune()
        return folder

    def latest(self) -> Checkpoint | None:
        """The whole checkpoint with the highest step, whatever the world that saved it; None without one."""
        return next(iter(reversed(self.all())), None)

    def all(self) -> list[Checkpoint]:
        """All whole checkpoints, by rising step."""
        return sorted(one for one in self._folders() if _is_whole(one))

    def prune(self) -> None:
        """Remove all but the `keep` newest whole checkpoints, and what was cut off before them."""
        whole = self.all()
        if len(whole) < self.keep:
            return
        oldest = whole[-self.keep]
        for one in self._folders():
            if one.step < oldest.step or (one.step == oldest.step and one in whole[: -self.keep]):
                # The marks first: what is half removed must not count.
                for rank in range(one.world_size):
                    (one.path / _MARK.format(rank)).unlink(missing_ok=True)
                _remove(one.path)

    def _folders(self) -> list[Checkpoint]:
        try:
            names = os.listdir(self.directory)
        except FileNotFoundError:
            return []
        found = [(match, name) for name in names if (match := _NAME.fullmatch(name)) is not None]
        return [Checkpoint(int(match[1]), self.directory / name, int(match[2])) for match, name in found]


def _is_whole(one: Checkpoint) -> bool:
    # Opened by name, not listed: a client of a network file system may show an old listing.
    return one.world_size > 0 and all(
        (one.path / _MARK.format(rank)).exists() for rank in range(one.world_size)
    )


def _move_all(work: Path, folder: Path) -> None:
    """Flush what was written and move it into the folder, file by file."""
    for path in sorted(work.rglob("*")):
        target = folder / path.relative_to(work)
        if path.is_dir():
            target.mkdir(exist_ok=True)
            continue
        _flush(path)
        path.replace(target)
    _flush(folder)


def _make_mark(path: Path) -> None:
    descriptor = os.open(path, os.O_CREAT | os.O_WRONLY, 0o600)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    _flush(path.parent)


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove(path: Path) -> None:
    import shutil  # brings compressors along; only who saves pays for it

    shutil.rmtree(path, ignore_errors=True)


def _remove_if_empty(folder: Path) -> None:
    try:
        folder.rmdir()
    except OSError:
        return  # another rank's part, or an earlier one, is in it
