"""What the Lightning callback refuses and switches off, against a trainer that is a few values."""

from __future__ import annotations

import signal
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import pytest

from hpc_elastic.adapters.lightning import _Hooks, resume_path
from hpc_elastic.adapters.loading import ElasticLoader
from hpc_elastic.adapters.steps import Steps
from hpc_elastic.sampling import ElasticBatches
from hpc_elastic.worker import Context


@dataclass
class Environment:
    auto_requeue: bool = True


@dataclass
class Strategy:
    step_of_rank_0: int = 0
    cluster_environment: Environment = field(default_factory=Environment)

    def broadcast(self, _own: int) -> int:
        return self.step_of_rank_0


@dataclass
class Trainer:
    strategy: Strategy = field(default_factory=Strategy)
    global_step: int = 0
    is_last_batch: bool = False
    reload_dataloaders_every_n_epochs: int = 1
    train_dataloader: object = None
    num_training_batches: int = 4
    limit_train_batches: float = 1.0
    saved: list[int] = field(default_factory=list)

    def save_checkpoint(self, path: Path) -> None:
        path.write_text("state")
        self.saved.append(self.global_step - 1)


def hooks(folder: Path) -> _Hooks:
    return _Hooks(Steps.of(Context(rank=1, world_size=2, checkpoint_dir=str(folder)), all_save=True))


def test_ranks_that_resumed_from_different_checkpoints_are_refused_with_both_steps(tmp_path: Path) -> None:
    trainer = Trainer(Strategy(step_of_rank_0=40), global_step=20)
    callback = hooks(tmp_path)
    callback.on_fit_start(trainer)

    with pytest.raises(RuntimeError, match="rank 1 resumed at step 20 and rank 0 at step 40"):
        callback.on_train_start(trainer)


def test_a_requeue_of_lightnings_own_is_off_and_the_scripts_action_for_term_stays(tmp_path: Path) -> None:
    trainer, callback = Trainer(Strategy()), hooks(tmp_path)
    before = signal.getsignal(signal.SIGTERM)

    callback.on_fit_start(trainer)
    taken = signal.signal(signal.SIGTERM, lambda *_: None)
    callback.on_sanity_check_start(trainer)

    assert not trainer.strategy.cluster_environment.auto_requeue
    assert taken == signal.getsignal(signal.SIGTERM) == before


class Told(Context):
    """A rank that is to stop at `last` or, if it does not ask there, at the next step where it asks."""

    last = 1_000

    def should_stop(self, step: int) -> bool:
        return step >= self.last


def train(folder: Path, steps_of_an_epoch: int, *, save_every: int = 0, last: int = 1_000) -> list[int]:
    """The steps that a training of twenty steps saves."""
    ctx = Told(checkpoint_dir=str(folder))
    ctx.last = last
    trainer, callback = Trainer(), _Hooks(Steps.of(ctx, save_every=save_every, all_save=True))
    callback.on_train_start(trainer)
    try:
        for step in range(20):
            trainer.global_step = step + 1
            trainer.is_last_batch = (step + 1) % steps_of_an_epoch == 0
            callback.on_train_batch_end(trainer)
    except SystemExit:
        trainer.saved.append(-1)
    return trainer.saved


def test_nobody_stops_at_the_last_step_of_an_epoch_but_after_the_first_of_the_next(tmp_path: Path) -> None:
    assert train(tmp_path / "last", 5, last=4) == [5, -1]
    assert train(tmp_path / "within", 5, last=5) == [5, -1]


def test_a_checkpoint_that_is_due_at_the_end_of_an_epoch_is_made_after_the_next_step(tmp_path: Path) -> None:
    assert train(tmp_path, 5, save_every=5) == [5, 10, 15]


def test_epochs_of_one_step_do_not_keep_a_rank_from_saving_and_stopping(tmp_path: Path) -> None:
    assert train(tmp_path / "every", 1, save_every=2) == [1, 3, 5, 7, 9, 11, 13, 15, 17, 19]
    assert train(tmp_path / "stop", 1, last=6) == [7, -1]


@pytest.mark.parametrize("place", ["alone", "in a list", "in a dictionary"])
def test_a_trainer_that_counts_the_steps_of_an_epoch_once_is_warned_of(tmp_path: Path, place: str) -> None:
    loader = ElasticLoader(ElasticBatches(8, 2), lambda taken: taken)
    given = {"alone": loader, "in a list": [[1], loader], "in a dictionary": {"a": loader}}[place]
    trainer = Trainer(train_dataloader=given, reload_dataloaders_every_n_epochs=0)

    with pytest.warns(RuntimeWarning, match=r"give Trainer\(\*\*trainer_options"):
        _Hooks(Steps.of(Context(checkpoint_dir=str(tmp_path)), all_save=True)).on_train_start(trainer)


def test_an_epoch_that_the_trainer_would_cut_is_warned_of(tmp_path: Path) -> None:
    loader = ElasticLoader(ElasticBatches(8, 2), lambda taken: taken)
    trainer = Trainer(train_dataloader=loader, num_training_batches=3)

    with pytest.warns(RuntimeWarning, match=r"counts 3 steps in this epoch, which has 4.*loader=loader"):
        _Hooks(Steps.of(Context(checkpoint_dir=str(tmp_path)), all_save=True)).on_train_start(trainer)


def test_the_loaders_of_a_checkpoint_are_brought_to_where_they_stood_before_the_steps_are_counted(
    tmp_path: Path,
) -> None:
    ctx = Context(checkpoint_dir=str(tmp_path))
    loaders = [ElasticLoader(ElasticBatches(48, 8), lambda taken: taken) for _ in range(2)]
    for loader, steps in zip(loaders, (1, 4), strict=True):
        assert len(list(islice(loader, steps))) == steps
    callback, trainer = _Hooks(Steps.of(ctx, save_every=1, all_save=True)), Trainer()
    trainer.train_dataloader, trainer.global_step = {"a": loaders[0], "b": [loaders[1]]}, 1
    callback.on_train_batch_end(trainer)

    larger = [ElasticLoader(ElasticBatches(48, 24), lambda taken: taken) for _ in range(2)]
    path = resume_path(ctx, loader={"a": larger[0], "b": [larger[1]]})

    assert path is not None
    assert [len(loader) for loader in larger] == [1 + 2, 4 + 1]


def test_a_fresh_run_has_nothing_to_resume_from(tmp_path: Path) -> None:
    assert resume_path(Context(checkpoint_dir=str(tmp_path))) is None
