"""A pytree of real JAX, saved and read again."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.examples.example_runs import agent_command, run
from tests.integration.adapters.trainings import told_by

PROGRAM = """
import jax, jax.numpy as jnp, numpy as np
from hpc_elastic.adapters import jax as elastic

ctx = elastic.initialize()
state = {"w": jnp.arange(6.0).reshape(2, 3), "n": 7, "host": np.arange(2)}
state |= {"half": jnp.ones(3, jnp.bfloat16) / 3}
steps = elastic.ElasticSteps(ctx, save_every=2, keep=1)
print(steps.resume(state)[0])
for step in range(4):
    steps.done(step, {**state, "n": step})
begin, found = elastic.ElasticSteps(ctx).resume(jax.tree.map(lambda leaf: leaf * 0, state))
print(begin, found["n"], type(found["n"]).__name__, type(found["host"]).__name__, found["half"].dtype)
print(bool((found["w"] == state["w"]).all()), bool((found["half"] == state["half"]).all()))
for other in ({"w": state["w"]}, {**state, "w": state["w"][0]}):
    try:
        elastic.ElasticSteps(ctx).resume(other)
    except ValueError as refused:
        print("another structure" in str(refused), "shape" in str(refused))
"""


@pytest.mark.needs_jax
def test_a_state_comes_back_with_its_types_and_one_of_another_structure_is_refused(tmp_path: Path) -> None:
    assert told_by(PROGRAM, tmp_path) == [
        "0",
        "4 3 int ndarray bfloat16",
        "True True",
        "True False",
        "False True",
    ]


IN_PARTS = """
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from hpc_elastic.adapters import jax as elastic

ctx = elastic.initialize()
mesh = Mesh(np.array(jax.devices()), ("ranks",))

def placed(*axes):
    rows = np.arange(4.0) if not axes else np.arange(2.0)
    return jax.make_array_from_process_local_data(NamedSharding(mesh, PartitionSpec(*axes)), rows)

steps = elastic.ElasticSteps(ctx)
print("whole", steps.resume({"w": placed()})[0])
steps.save(3, {"w": placed()})
try:
    steps.resume({"w": placed(), "rows": [placed("ranks")]})
except ValueError as refused:
    print(refused)
"""


@pytest.mark.needs_jax
def test_a_state_in_parts_on_several_processes_is_refused_before_the_training_begins(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(IN_PARTS)
    words = ("--standalone", "--nproc-per-node", "2", tmp_path / "program.py")

    ended = run(agent_command(tmp_path / "run", *words), tmp_path, JAX_PLATFORMS="cpu")

    assert ended.returncode == 0, ended.stdout
    for rank in (0, 1):
        (told,) = (tmp_path / "run").glob(f"logs/*/*/{rank}.out")
        # Its communication has lines of its own.
        ours = [line for line in told.read_text().splitlines() if line.startswith(("whole", "state"))]
        assert ours[0] == "whole 0"
        assert ours[1].startswith("state['rows'][0] of shape (4,) lies in parts on several processes")
