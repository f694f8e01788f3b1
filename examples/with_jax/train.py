"""Data-parallel regression in JAX over all processes of the run, preempted and resumed.

    sbatch -N 2 sbatch/elastic.sh examples/with_jax/train.py                    a Slurm job
    hpc-elastic run --standalone --nproc-per-node 2 examples/with_jax/train.py  two processes, this machine

The state that is saved holds the position in the data too, as two numbers.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from hpc_elastic.adapters import jax as elastic
from hpc_elastic.sampling import ElasticBatches

SAMPLES, BATCH, FEATURES, RATE = 512, 8, 16, 0.05


def main() -> None:
    options = parse_options()
    ctx = elastic.initialize()
    mesh = Mesh(np.array(jax.devices()), ("ranks",))
    shared = NamedSharding(mesh, PartitionSpec())
    split = NamedSharding(mesh, PartitionSpec("ranks"))
    features, targets = a_data_set()
    batches = ElasticBatches(SAMPLES, BATCH, rank=ctx.rank, world_size=ctx.world_size)
    zeros = np.zeros(FEATURES, np.float32)
    state = {
        "weights": jax.make_array_from_process_local_data(shared, zeros),
        "epoch": 0,
        "position": 0,
    }
    steps = elastic.ElasticSteps(ctx, save_every=100)
    step, state = steps.resume(state)
    batches.load_state_dict(batches.state_dict() | {name: int(state[name]) for name in ("epoch", "position")})

    weights = state["weights"]
    while batches.epoch < options.epochs:
        for batch in batches:
            rows = jax.make_array_from_process_local_data(split, features[batch])
            wanted = jax.make_array_from_process_local_data(split, targets[batch])
            weights, loss = train_step(weights, rows, wanted)
            print(f"step {step} samples {batch} loss {float(loss):.6f}", flush=True)
            time.sleep(options.step_seconds)
            batches.advance()
            steps.done(step, {"weights": weights, "epoch": batches.epoch, "position": batches.position})
            step += 1
    print(f"done after {step} steps: weights {float(jnp.sum(weights)):.6f}", flush=True)


@jax.jit  # type: ignore[untyped-decorator]  # its library is not followed by the type check
def train_step(weights: Any, features: Any, targets: Any) -> tuple[Any, Any]:
    """The next weights, and the loss: JAX adds up over the processes."""

    def loss_of(weights: Any) -> Any:
        return jnp.mean((features @ weights - targets) ** 2)

    loss, gradient = jax.value_and_grad(loss_of)(weights)
    return weights - RATE * gradient, loss


def a_data_set() -> tuple[np.ndarray, np.ndarray]:
    """All samples, the same in every process."""
    chance = np.random.default_rng(1)
    features = chance.normal(size=(SAMPLES, FEATURES)).astype(np.float32)
    return features, features @ chance.normal(size=FEATURES).astype(np.float32)


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="linear regression with JAX")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--step-seconds", type=float, default=0.0, help="a pause in each step, to watch")
    return parser.parse_args()


if __name__ == "__main__":
    main()
