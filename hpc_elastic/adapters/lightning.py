"""PyTorch Lightning: a callback that stops all ranks after one step, and saves through the trainer.

    from hpc_elastic.adapters.lightning import elastic_callback, resume_path, trainer_options

    trainer = Trainer(max_epochs=90, callbacks=[elastic_callback(save_every=1000)], **trainer_options())
    trainer.fit(model, loader, ckpt_path=resume_path(loader=loader))

Checkpoints are Lightning's own files, `lightning.ckpt` in a folder of `Checkpoints`. A loader that has a
state, such as `ElasticLoader`, goes on in the middle of an epoch; with another one Lightning begins the
epoch's data anew, and says so. Nobody saves or stops at the last step of an epoch, but after the first one of
the next: a resume from there would leave out what Lightning does at the end of an epoch (validation,
schedulers), and cut the next epoch to the steps of the last one. Lightning's own requeue is off: the batch
script asks for one.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from hpc_elastic.adapters.loading import ElasticLoader
from hpc_elastic.adapters.steps import Steps
from hpc_elastic.checkpoints import KEEP
from hpc_elastic.worker import Context

FILE: Final = "lightning.ckpt"
LOADERS: Final = "loaders.json"


def elastic_callback(ctx: Context | None = None, *, save_every: int = 0, keep: int = KEEP) -> Any:
    """A Lightning `Callback`: progress, the agreed stop, and a checkpoint each `save_every` optimizer steps.

    Make it before `fit`, in the main thread. `keep` whole checkpoints stay. At a stop `fit` raises
    `SystemExit(0)`; validation is not run then, and loggers hear that the fit was interrupted.
    """
    # Whoever uses the older name has other classes of the same names.
    name = "pytorch_lightning" if "pytorch_lightning" in sys.modules else "lightning.pytorch"
    callback_class = importlib.import_module(name).Callback
    made = type("ElasticCallback", (_Hooks, callback_class), {})
    return made(Steps.of(ctx, save_every=save_every, keep=keep, all_save=True))


def resume_path(ctx: Context | None = None, *, loader: Any = None) -> str | None:
    """The newest whole checkpoint for `fit(ckpt_path=...)`, or None for a fresh start.

    `loader`, what `fit` is given, is brought to where it stood: Lightning does so only after it has counted
    the steps of the epoch, and would cut off what a larger world has more of them.
    """
    last = Steps.of(ctx, all_save=True).latest()
    if last is None:
        return None
    kept = last.path / LOADERS
    if loader is not None and kept.exists():
        states = json.loads(kept.read_text())
        for one, state in zip(_elastic(loader), states, strict=True):
            one.load_state_dict(state)
    return str(last.path / FILE)


def trainer_options() -> dict[str, Any]:
    """Arguments for `Trainer`: the nodes and devices of this round, whose number may be another next time.

    The length of an epoch is read anew each epoch, because a resumed one may be shorter.
    """
    return {
        "num_nodes": int(os.environ.get("GROUP_WORLD_SIZE", "1")),
        "devices": int(os.environ.get("LOCAL_WORLD_SIZE", "1")),
        "reload_dataloaders_every_n_epochs": 1,
    }


class _Hooks:
    """What the callback does in Lightning's hooks."""

    def __init__(self, steps: Steps) -> None:
        self._steps = steps
        self._step = -1
        self._has_passed = False
        self._on_term: Any = signal.SIG_DFL

    def on_fit_start(self, trainer: Any, *_: Any) -> None:
        """Before Lightning looks at its environment and takes the signals."""
        # One device has a strategy without an environment, and the signals are taken by the connector's.
        for owner in (trainer.strategy, getattr(trainer, "_accelerator_connector", None)):
            environment: Any = getattr(owner, "cluster_environment", None)
            if getattr(environment, "auto_requeue", False):
                environment.auto_requeue = False
        self._on_term = signal.getsignal(signal.SIGTERM)

    def on_sanity_check_start(self, *_: Any) -> None:
        """The first hook after Lightning has taken the signals, where there is validation."""
        self._keep_term()

    def on_train_start(self, trainer: Any, *_: Any) -> None:
        """Refuses ranks that have not resumed from one checkpoint: their listings may have differed."""
        self._keep_term()
        first, own = trainer.strategy.broadcast(trainer.global_step), trainer.global_step
        if own != first:
            raise RuntimeError(
                f"rank {self._steps.ctx.rank} resumed at step {own} and rank 0 at step {first}: they do not "
                f"see the same in {self._steps.checkpoints.directory}; a restart of the round looks again"
            )
        self._step = own - 1
        _warn_of_cut_epochs(trainer)

    def on_train_batch_end(self, trainer: Any, *_: Any) -> None:
        """After an optimizer step, not between the batches whose gradients are accumulated for one."""
        step = trainer.global_step - 1
        if step <= self._step:
            return
        self._step = step
        # Where each step is the last of its epoch, every other one has to do.
        self._has_passed = trainer.is_last_batch and not self._has_passed
        if self._has_passed:
            self._steps.passed(step)
        else:
            self._steps.done(step, lambda folder: self._write(trainer, folder))

    def _write(self, trainer: Any, folder: Path) -> None:
        trainer.save_checkpoint(folder / FILE)
        if self._steps.ctx.rank == 0:
            states = [loader.state_dict() for loader in _elastic(trainer.train_dataloader)]
            (folder / LOADERS).write_text(json.dumps(states))

    def _keep_term(self) -> None:
        """Lightning's action for TERM calls a collective, in the middle of whatever the others do.

        Slurm sends TERM to workers too when a preemption begins; the agreed stop is the answer to it.
        """
        # None: an action that was not set from Python, and cannot be set again from there.
        if self._on_term is not None and signal.getsignal(signal.SIGTERM) is not self._on_term:
            signal.signal(signal.SIGTERM, self._on_term)


def _warn_of_cut_epochs(trainer: Any) -> None:
    """An epoch that was begun in another world has another number of steps than the next one."""
    loaders = list(_elastic(trainer.train_dataloader))
    if loaders and trainer.reload_dataloaders_every_n_epochs != 1:
        warnings.warn(
            "the Trainer counts the steps of an epoch once, and a resumed one may be longer or shorter: data "
            "would be left out; give Trainer(**trainer_options()), or reload_dataloaders_every_n_epochs=1",
            RuntimeWarning,
            stacklevel=2,
        )
    steps = max((len(loader) for loader in loaders), default=0)
    if steps > trainer.num_training_batches and trainer.limit_train_batches == 1.0:
        warnings.warn(
            f"the Trainer counts {trainer.num_training_batches} steps in this epoch, which has {steps}: data "
            "would be left out; give fit(ckpt_path=resume_path(loader=loader))",
            RuntimeWarning,
            stacklevel=2,
        )


def _elastic(loaders: Any) -> Iterator[ElasticLoader]:
    """Those among what `fit` is given: a loader, or several in lists and dictionaries."""
    if isinstance(loaders, ElasticLoader):
        yield loaders
    elif isinstance(loaders, Mapping):
        yield from (found for one in loaders.values() for found in _elastic(one))
    elif isinstance(loaders, (list, tuple)):
        yield from (found for one in loaders for found in _elastic(one))
