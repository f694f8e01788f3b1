"""What every adapter does after a step: tell it, save when that is due, and stop where all ranks stop."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from hpc_elastic.checkpoints import KEEP, Checkpoint, Checkpoints
from hpc_elastic.worker import Context, context


class Steps:
    """The steps of one rank, and the checkpoints of its run.

    `save_every` steps a checkpoint is made, besides the one at a stop; 0: only at a stop.
    """

    def __init__(self, ctx: Context, checkpoints: Checkpoints, save_every: int) -> None:
        self.ctx = ctx
        self.checkpoints = checkpoints
        self.save_every = save_every
        self._is_late = False

    @classmethod
    def of(
        cls, ctx: Context | None = None, *, save_every: int = 0, keep: int = KEEP, all_save: bool
    ) -> Steps:
        """Steps whose checkpoints lie in the run's directory, written by all ranks or by rank 0 alone."""
        if save_every < 0:
            raise ValueError(f"save_every={save_every}: give a number of steps, or 0 for a stop only")
        ctx = context() if ctx is None else ctx
        rank, world_size = (ctx.rank, ctx.world_size) if all_save else (0, 1)
        return cls(
            ctx, Checkpoints(ctx.checkpoint_dir, rank=rank, world_size=world_size, keep=keep), save_every
        )

    @property
    def takes_part(self) -> bool:
        """Whether this rank writes anything into a checkpoint."""
        return self.ctx.rank == self.checkpoints.rank

    def latest(self) -> Checkpoint | None:
        """The newest whole checkpoint of the run, of whatever world."""
        return self.checkpoints.latest()

    def done(self, step: int, write: Callable[[Path], object]) -> None:
        """`step` is done on this rank; where all ranks stop after it, save the state and end the process.

        `write(folder)` puts this rank's part of the state into files. Raises `SystemExit(0)` at a stop.
        """
        self.ctx.progress(step)
        stop = self.ctx.should_stop(step)
        if stop or self._is_late or self._is_due(step):
            self.save(step, write)
            self._is_late = False
        if stop:
            self.ctx.leave()

    def passed(self, step: int) -> None:
        """`step` is done, at a place from which nobody should go on: what is due there comes after the next.

        To be called by all ranks for the same steps. Whoever does not ask at the step where all were to stop
        hears of it at the next one, and so do the others.
        """
        self.ctx.progress(step)
        self._is_late = self._is_late or self._is_due(step)

    def _is_due(self, step: int) -> bool:
        return self.save_every > 0 and (step + 1) % self.save_every == 0

    def save(self, step: int, write: Callable[[Path], object]) -> None:
        """Make a checkpoint of the state after `step`, whole or not at all."""
        if self.takes_part:
            self.checkpoints.save(step, write)
        self.ctx.saved(step)
