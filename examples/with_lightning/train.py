"""A small Lightning model, preempted and resumed in the middle of an epoch.

    sbatch -N 2 sbatch/elastic.sh examples/with_lightning/train.py                    a Slurm job
    hpc-elastic run --standalone --nproc-per-node 2 examples/with_lightning/train.py  two ranks, this machine

Beside the callback, the options and the path there is nothing that a model has to know.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import torch
from lightning.pytorch import LightningModule, Trainer, seed_everything
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from hpc_elastic import worker
from hpc_elastic.adapters.lightning import elastic_callback, resume_path, trainer_options
from hpc_elastic.adapters.loading import ElasticLoader
from hpc_elastic.sampling import ElasticBatches

SAMPLES, BATCH, FEATURES = 512, 8, 16


class Regression(LightningModule):  # type: ignore[misc]  # its library is not followed by the type check
    """A teacher's weights, found again."""

    def __init__(self, pause_s: float) -> None:
        super().__init__()
        self.network = nn.Linear(FEATURES, 1)
        self.pause_s = pause_s

    def training_step(self, batch: list[torch.Tensor], _: int) -> torch.Tensor:
        numbers, features, targets = batch
        loss = nn.functional.mse_loss(self.network(features), targets)
        print(f"step {self.global_step} samples {numbers.tolist()} loss {loss.item():.6f}", flush=True)
        time.sleep(self.pause_s)
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.05, momentum=0.9)


def main() -> None:
    options = parse_options()
    ctx = worker.context()
    torch.set_num_threads(1)
    seed_everything(0)
    model, samples = Regression(options.step_seconds), a_data_set()
    batches = ElasticBatches(SAMPLES, BATCH, rank=ctx.rank, world_size=ctx.world_size)
    trainer = Trainer(
        accelerator="cpu",
        max_epochs=options.epochs,
        callbacks=[elastic_callback(save_every=100)],
        logger=False,
        enable_checkpointing=False,  # ours are enough; yours may be made as well
        enable_progress_bar=False,
        **trainer_options(),
    )
    loader = ElasticLoader(batches, lambda sampler: DataLoader(samples, batch_sampler=sampler))
    trainer.fit(model, loader, ckpt_path=resume_path(loader=loader))
    weights = sum(p.double().sum().item() for p in model.parameters())
    print(f"done after {trainer.global_step} steps: weights {weights:.6f}", flush=True)


def a_data_set() -> Any:
    """Samples, each with its number; the same on every rank."""
    chance = torch.Generator().manual_seed(1)
    features = torch.randn(SAMPLES, FEATURES, generator=chance)
    targets = features @ torch.randn(FEATURES, 1, generator=chance)
    return TensorDataset(torch.arange(SAMPLES), features, targets)


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="linear regression with Lightning")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--step-seconds", type=float, default=0.0, help="a pause in each step, to watch")
    return parser.parse_args()


if __name__ == "__main__":
    main()
