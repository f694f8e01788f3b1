"""JAX: its processes joined, a pytree saved and restored, and the agreed stop in your loop.

    from hpc_elastic.adapters import jax as elastic

    ctx = elastic.initialize()
    steps = elastic.ElasticSteps(ctx, save_every=1000)
    start, state = steps.resume(state)
    for step in range(start, total):
        state = train_step(state, batch(step))
        steps.done(step, state)

The state is saved by rank 0, as one `.npz` file of its leaves. It has to be whole on every process: one with
arrays in parts on several processes is refused when the run begins, and not only when it has to be saved. For
such a state use `worker.context()` and Orbax, in a folder of `hpc_elastic.checkpoints`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from hpc_elastic.adapters.steps import Steps
from hpc_elastic.checkpoints import KEEP
from hpc_elastic.worker import Context, context

FILE: Final = "leaves.npz"
_STRUCTURE: Final = "structure"


def initialize() -> Context:
    """Join the processes of this round with `jax.distributed.initialize`; alone, nothing is joined.

    To be called before JAX is used. JAX's own answer to SIGTERM is switched off: it would be a second one.
    """
    import jax

    ctx = context()
    if ctx.world_size > 1:
        jax.config.update("jax_enable_preemption_service", False)
        jax.distributed.initialize(
            coordinator_address=os.environ.get("JAX_COORDINATOR_ADDRESS") or _of_torchrun(),
            num_processes=ctx.world_size,
            process_id=ctx.rank,
        )
    return ctx


class ElasticSteps:
    """The steps of a JAX loop, and its state's checkpoints."""

    def __init__(self, ctx: Context | None = None, *, save_every: int = 0, keep: int = KEEP) -> None:
        self._steps = Steps.of(ctx, save_every=save_every, keep=keep, all_save=False)

    def resume(self, state: Any) -> tuple[int, Any]:
        """The step to go on with and the state to go on from: 0 and `state` itself without a checkpoint.

        `state` gives the structure, shapes and types. Rank 0 chooses the checkpoint. `ValueError` where it
        is of another structure, and where `state` is one that could not be saved.
        """
        refuse_parts(state)
        last = self._steps.latest() if self._steps.takes_part else None
        step = self._agreed(-1 if last is None else last.step)
        if step < 0:
            return 0, state
        folder = self._steps.checkpoints.directory / f"step-{step}-of-1"
        return step + 1, read(folder / FILE, like=state)

    def done(self, step: int, state: Any) -> None:
        """`state` is that after `step`: save it when due; at the agreed stop save it, and end the process."""
        self._steps.done(step, _writer(state))

    def save(self, step: int, state: Any) -> None:
        """Make a checkpoint now, on rank 0."""
        self._steps.save(step, _writer(state))

    def _agreed(self, step: int) -> int:
        if self._steps.ctx.world_size == 1:
            return step
        from jax.experimental import multihost_utils

        return int(multihost_utils.broadcast_one_to_all(step))


def refuse_parts(tree: Any) -> None:
    """Raise `ValueError` naming a leaf that lies on several processes in parts: none of them has it whole."""
    import jax

    for name, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]:
        if not (getattr(leaf, "is_fully_addressable", True) or leaf.is_fully_replicated):
            raise ValueError(
                f"state{jax.tree_util.keystr(name)} of shape {leaf.shape} lies in parts on several processes "
                "and on none as a whole; save it with Orbax, or give it to all with PartitionSpec()"
            )


def write(path: Path, tree: Any) -> None:
    """Save the leaves of a pytree; `ValueError` names one that lies on several processes in parts."""
    import jax
    import numpy as np

    refuse_parts(tree)
    leaves, structure = jax.tree_util.tree_flatten(tree)
    arrays = {f"{number}": _whole(leaf) for number, leaf in enumerate(leaves)}
    np.savez(path, **{_STRUCTURE: np.array(str(structure))}, **arrays)


def read(path: Path, *, like: Any) -> Any:
    """The pytree that `write` saved, with the structure of `like`; `ValueError` where it had another."""
    import jax
    import numpy as np

    leaves, structure = jax.tree_util.tree_flatten(like)
    with np.load(path) as saved:
        if str(saved[_STRUCTURE]) != str(structure):
            raise ValueError(
                f"{path} holds a state of another structure: {saved[_STRUCTURE]}, expected {structure}; "
                "resume with the code that saved it, or begin anew in another directory"
            )
        found = [saved[f"{number}"] for number in range(len(leaves))]
    return jax.tree_util.tree_unflatten(
        structure, [_placed(old, leaf, path) for old, leaf in zip(found, leaves, strict=True)]
    )


def _placed(saved: Any, leaf: Any, path: Path) -> Any:
    """What was saved, with the type of `leaf`, and on the devices where that lies."""
    import jax
    import numpy as np

    if saved.shape != np.shape(leaf):
        raise ValueError(f"{path} holds a leaf of shape {saved.shape}, expected {np.shape(leaf)}")
    if not isinstance(leaf, jax.Array):
        return saved if isinstance(leaf, np.ndarray) else saved.item()
    typed = (
        saved.view(leaf.dtype) if saved.dtype.kind == "V" else saved.astype(leaf.dtype)
    )  # bfloat16 is V to NumPy
    return jax.make_array_from_callback(leaf.shape, leaf.sharding, lambda index: typed[index])


def _writer(state: Any) -> Callable[[Path], None]:
    return lambda folder: write(folder / FILE, state)


def _whole(leaf: Any) -> Any:
    import numpy as np

    is_here = getattr(leaf, "is_fully_addressable", True)
    return np.asarray(leaf if is_here else leaf.addressable_data(0))


def _of_torchrun() -> str:
    return f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
