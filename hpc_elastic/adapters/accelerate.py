"""Hugging Face accelerate: resume, the agreed stop, and checkpoints made by `Accelerator.save_state`.

    from hpc_elastic.adapters.accelerate import ElasticSteps

    accelerator = Accelerator()
    model, optimizer = accelerator.prepare(model, optimizer)
    accelerator.register_for_checkpointing(loader)         # an ElasticLoader: it deals out by itself
    steps = ElasticSteps(accelerator, save_every=1000)
    start = steps.resume()
    for step in range(start, total):
        ...
        steps.done(step)

What you give to `register_for_checkpointing` is saved and comes back as well.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hpc_elastic.adapters.steps import Steps
from hpc_elastic.checkpoints import KEEP
from hpc_elastic.worker import Context


class ElasticSteps:
    """The steps of an `Accelerator`; a checkpoint is what `save_state` saves, with a part of each rank."""

    def __init__(
        self, accelerator: Any, ctx: Context | None = None, *, save_every: int = 0, keep: int = KEEP
    ) -> None:
        self._accelerator = accelerator
        self._steps = Steps.of(ctx, save_every=save_every, keep=keep, all_save=True)

    def resume(self) -> int:
        """The step to go on with, after loading the newest whole checkpoint; 0 without one.

        Rank 0 chooses it, so that no two ranks start from different ones. To be called by all ranks, after
        `prepare` and `register_for_checkpointing`.
        """
        from accelerate.utils import broadcast_object_list

        last = self._steps.latest()
        chosen: list[Any] = [None if last is None else (last.step, str(last.path))]
        broadcast_object_list(chosen)
        if chosen[0] is None:
            return 0
        step, folder = chosen[0]
        self._accelerator.load_state(folder)
        return int(step) + 1

    def done(self, step: int) -> None:
        """`step` is done here: save when that is due; at the agreed stop save, and end the process."""
        self._steps.done(step, self._write)

    def save(self, step: int) -> None:
        """Make a checkpoint now, on all ranks."""
        self._steps.save(step, self._write)

    def _write(self, folder: Path) -> None:
        self._accelerator.save_state(str(folder))
