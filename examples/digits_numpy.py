"""Data-parallel softmax regression on handwritten digits in plain NumPy, ready to be preempted.

    python examples/digits_numpy.py                                            one process
    hpc-elastic run --standalone --nproc-per-node 2 examples/digits_numpy.py   two ranks, this machine
    sbatch -N 4 sbatch/elastic.sh examples/digits_numpy.py                     four nodes of a Slurm job

Every rank computes the gradient of its share of each batch, and an all-reduce adds the shares up.
The lines with `ctx.` are all that a script needs in order to stop with its peers and to resume later.
"""

from __future__ import annotations

import argparse
import os
import time
import zipfile
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from star import Star

from hpc_elastic import worker

BATCH, TEST_IMAGES, LEARNING_RATE = 256, 360, 0.5
SHAPE = (65, 10)  # 64 pixels and a bias; 10 digits


def main() -> None:
    options = parse_options()
    ctx = worker.context()
    pixels, labels = images_and_labels()
    star = Star.connect(ctx)

    start, weights = resume(ctx, star)
    print(f"rank {ctx.rank} of {ctx.world_size} starts at step {start} of {options.steps}", flush=True)

    for step in range(start, options.steps):
        # The batch depends on the step alone, so it is the same however many ranks share it.
        batch = np.random.default_rng(step).permutation(len(labels) - TEST_IMAGES)[:BATCH] + TEST_IMAGES
        share = batch[ctx.rank :: ctx.world_size]
        sums = star.sum(loss_and_gradient(weights, pixels[share], labels[share]))
        weights -= LEARNING_RATE / BATCH * sums[1:].reshape(SHAPE)
        if step % options.print_every == 0:
            print(f"step {step} loss {sums[0] / BATCH:.4f}", flush=True)
        time.sleep(options.step_seconds)

        ctx.progress(step)
        stop = ctx.should_stop(step)  # true at the same step on every rank, once a notice has come
        if ctx.rank == 0 and (stop or (step + 1) % options.save_every == 0):
            save(ctx.checkpoint_dir, step + 1, weights)
        if stop:
            ctx.saved(step)
            ctx.leave()  # ends this process; the next round or attempt goes on with the next step

    if ctx.rank == 0:
        save(ctx.checkpoint_dir, options.steps, weights)
        guesses = (pixels[:TEST_IMAGES] @ weights).argmax(axis=1)
        accuracy = np.mean(guesses == labels[:TEST_IMAGES])
        print(f"done after {options.steps} steps: test accuracy {accuracy:.4f}", flush=True)


def images_and_labels() -> tuple[np.ndarray, np.ndarray]:
    """All images in one fixed random order: the first TEST_IMAGES are for the test."""
    digits = load_digits()
    pixels = np.hstack([digits.data / 16, np.ones((len(digits.data), 1))])
    order = np.random.default_rng(0).permutation(len(pixels))
    return pixels[order], digits.target[order]


def loss_and_gradient(weights: np.ndarray, pixels: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The summed loss and then the summed gradient, in one flat array: one all-reduce serves both."""
    scores = pixels @ weights
    scores -= scores.max(axis=1, keepdims=True)
    chances = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    rows = np.arange(len(labels))
    loss = -np.log(chances[rows, labels]).sum()
    chances[rows, labels] -= 1
    return np.concatenate([[loss], (pixels.T @ chances).ravel()])


def resume(ctx: worker.Context, star: Star) -> tuple[int, np.ndarray]:
    """The step to go on with, and the weights: equal on every rank.

    Rank 0 alone reads the checkpoint, so that no two ranks can start from different ones; added
    to the zeros of everybody else, what it read reaches them all.
    """
    step, weights = load(ctx.checkpoint_dir) if ctx.rank == 0 else (0, np.zeros(SHAPE))
    agreed = star.sum(np.concatenate([[step], weights.ravel()]))
    return int(agreed[0]), agreed[1:].reshape(SHAPE)


def save(directory: Path, step: int, weights: np.ndarray) -> None:
    """Write a checkpoint that is whole or not there at all, and keep the one before it."""
    directory.mkdir(parents=True, exist_ok=True)
    temporary = directory / "numpy.tmp"
    with temporary.open("wb") as file:
        np.savez(file, step=step, weights=weights)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(directory / f"numpy-{step:08d}.npz")
    for old in sorted(directory.glob("numpy-*.npz"))[:-2]:
        old.unlink()


def load(directory: Path) -> tuple[int, np.ndarray]:
    """The next step and the weights of the latest good checkpoint, else those of a fresh start."""
    for path in sorted(directory.glob("numpy-*.npz"), reverse=True):
        try:
            with np.load(path) as saved:
                return int(saved["step"]), saved["weights"]
        except (OSError, EOFError, KeyError, ValueError, zipfile.BadZipFile) as error:
            print(f"skipping {path}, which is damaged: {error}", flush=True)
    return 0, np.zeros(SHAPE)


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="softmax regression on handwritten digits")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--step-seconds", type=float, default=0.0, help="a pause after each step, to watch")
    parser.add_argument("--save-every", type=int, default=50, metavar="STEPS")
    parser.add_argument("--print-every", type=int, default=25, metavar="STEPS")
    return parser.parse_args()


if __name__ == "__main__":
    main()
