"""Handwritten digits with torch DistributedDataParallel over gloo on CPU, ready to be preempted.

    sbatch -N 2 sbatch/elastic.sh --nproc-per-node 2 examples/torch_ddp/digits_ddp.py  2 x 2 ranks
    hpc-elastic run --standalone --nproc-per-node 2 examples/torch_ddp/digits_ddp.py   two ranks, this machine
    torchrun --standalone --nproc-per-node 2 examples/torch_ddp/digits_ddp.py          unchanged, no notices

The lines with `ctx.` are all that a DDP script needs in order to stop with its peers and to resume later.
"""

from __future__ import annotations

import argparse
import os
import pickle
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from hpc_elastic import worker

BATCH, TEST_IMAGES = 256, 360


def main() -> None:
    options = parse_options()
    ctx = worker.context()
    torch.set_num_threads(1)  # several ranks share a node; a real job has a GPU each
    torch.manual_seed(0)
    if ctx.world_size > 1:
        dist.init_process_group("gloo")
    try:
        train(ctx, options)
    finally:
        if ctx.world_size > 1:
            dist.destroy_process_group()


def train(ctx: worker.Context, options: argparse.Namespace) -> None:
    pixels, labels = images_and_labels()
    network = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9)
    start = resume(ctx, network, optimizer)
    model = DistributedDataParallel(network) if ctx.world_size > 1 else network
    print(f"rank {ctx.rank} of {ctx.world_size} starts at step {start} of {options.steps}", flush=True)

    for step in range(start, options.steps):
        # The batch depends on the step alone, so it is the same however many ranks share it.
        batch = torch.randperm(len(labels) - TEST_IMAGES, generator=torch.Generator().manual_seed(step))
        share = batch[:BATCH][ctx.rank :: ctx.world_size] + TEST_IMAGES
        optimizer.zero_grad()
        # DDP averages over ranks, whose shares may differ by one: weigh each image alike.
        loss = nn.functional.cross_entropy(model(pixels[share]), labels[share], reduction="sum")
        (loss * ctx.world_size / BATCH).backward()
        optimizer.step()
        if step % options.print_every == 0:
            print(f"step {step} loss {loss.item() / len(share):.4f}", flush=True)
        time.sleep(options.step_seconds)

        ctx.progress(step)
        stop = ctx.should_stop(step)  # true at the same step on every rank, once a notice has come
        if ctx.rank == 0 and (stop or (step + 1) % options.save_every == 0):
            save(ctx.checkpoint_dir, step + 1, network, optimizer)
        if stop:
            ctx.saved(step)
            ctx.leave()  # ends this process; the next round or attempt goes on with the next step

    if ctx.rank == 0:
        save(ctx.checkpoint_dir, options.steps, network, optimizer)
        with torch.no_grad():
            guesses = network(pixels[:TEST_IMAGES]).argmax(dim=1)
        accuracy = (guesses == labels[:TEST_IMAGES]).float().mean().item()
        print(f"done after {options.steps} steps: test accuracy {accuracy:.4f}", flush=True)


def images_and_labels() -> tuple[torch.Tensor, torch.Tensor]:
    """All images in one fixed random order: the first TEST_IMAGES are for the test."""
    digits = load_digits()
    order = torch.randperm(len(digits.target), generator=torch.Generator().manual_seed(0))
    pixels = torch.tensor(digits.data, dtype=torch.float32) / 16
    return pixels[order], torch.tensor(digits.target)[order]


def resume(ctx: worker.Context, network: nn.Module, optimizer: torch.optim.Optimizer) -> int:
    """The step to go on with; network and optimizer become those of the checkpoint on every rank.

    Rank 0 alone reads it, so that no two ranks can start from different ones.
    """
    found = [load(ctx.checkpoint_dir) if ctx.rank == 0 else None]
    if ctx.world_size > 1:
        dist.broadcast_object_list(found)
    if found[0] is None:
        return 0
    network.load_state_dict(found[0]["network"])
    optimizer.load_state_dict(found[0]["optimizer"])
    return int(found[0]["step"])


def save(directory: Path, step: int, network: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Write a checkpoint that is whole or not there at all, and keep the one before it."""
    state = {"step": step, "network": network.state_dict(), "optimizer": optimizer.state_dict()}
    temporary = directory / "ddp.tmp"
    with temporary.open("wb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(directory / f"ddp-{step:08d}.pt")
    for old in sorted(directory.glob("ddp-*.pt"))[:-2]:
        old.unlink()


def load(directory: Path) -> dict[str, Any] | None:
    """The latest good checkpoint, or None."""
    for path in sorted(directory.glob("ddp-*.pt"), reverse=True):
        try:
            state: dict[str, Any] = torch.load(path, weights_only=True)
            return state
        except (OSError, EOFError, RuntimeError, ValueError, pickle.UnpicklingError) as error:
            print(f"skipping {path}, which is damaged: {error}", flush=True)
    return None


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="handwritten digits with torch DDP")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--step-seconds", type=float, default=0.0, help="a pause after each step, to watch")
    parser.add_argument("--save-every", type=int, default=50, metavar="STEPS")
    parser.add_argument("--print-every", type=int, default=25, metavar="STEPS")
    return parser.parse_args()


if __name__ == "__main__":
    main()
