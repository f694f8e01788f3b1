"""A small loop with Hugging Face accelerate, preempted and resumed in the middle of an epoch.

    sbatch -N 2 sbatch/elastic.sh examples/with_accelerate/train.py                    a Slurm job
    hpc-elastic run --standalone --nproc-per-node 2 examples/with_accelerate/train.py  two ranks, this machine

`ElasticSteps` is all that was added to an ordinary loop, and the loader that knows where it stands.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from hpc_elastic import worker
from hpc_elastic.adapters.accelerate import ElasticSteps
from hpc_elastic.adapters.loading import ElasticLoader
from hpc_elastic.sampling import ElasticBatches

SAMPLES, BATCH, FEATURES = 512, 8, 16


def main() -> None:
    options = parse_options()
    ctx = worker.context()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    accelerator = Accelerator(cpu=True)
    network = nn.Linear(FEATURES, 1)
    model, optimizer = accelerator.prepare(
        network, torch.optim.SGD(network.parameters(), lr=0.05, momentum=0.9)
    )
    samples = a_data_set()
    batches = ElasticBatches(SAMPLES, BATCH, rank=ctx.rank, world_size=ctx.world_size)
    # Not prepared: it already gives each rank its own samples.
    loader = ElasticLoader(batches, lambda sampler: DataLoader(samples, batch_sampler=sampler))
    accelerator.register_for_checkpointing(loader)
    steps = ElasticSteps(accelerator, save_every=100)

    step = steps.resume()
    while batches.epoch < options.epochs:
        for numbers, features, targets in loader:
            loss = nn.functional.mse_loss(
                model(features.to(accelerator.device)), targets.to(accelerator.device)
            )
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            print(f"step {step} samples {numbers.tolist()} loss {loss.item():.6f}", flush=True)
            time.sleep(options.step_seconds)
            steps.done(step)
            step += 1
    weights = sum(p.double().sum().item() for p in network.parameters())
    print(f"done after {step} steps: weights {weights:.6f}", flush=True)
    accelerator.end_training()


def a_data_set() -> Any:
    """Samples, each with its number; the same on every rank."""
    chance = torch.Generator().manual_seed(1)
    features = torch.randn(SAMPLES, FEATURES, generator=chance)
    targets = features @ torch.randn(FEATURES, 1, generator=chance)
    return TensorDataset(torch.arange(SAMPLES), features, targets)


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="linear regression with accelerate")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--step-seconds", type=float, default=0.0, help="a pause in each step, to watch")
    return parser.parse_args()


if __name__ == "__main__":
    main()
