"""The batch script that the help of `hpc-elastic requeue` shows, with `--json` for who wants to read it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from hpc_elastic.testing.sandbox import Sandbox
from tests.integration.agent.agents import STEPPER
from tests.integration.slurm.bench import Bench
from tests.waiting import wait_until

pytestmark = pytest.mark.needs_slurm

BATCH: Final = """#!/bin/bash
#SBATCH --requeue --open-mode=append
trap : TERM USR2
hpc_elastic=("$HPC_ELASTIC_PYTHON" -m hpc_elastic)
"${hpc_elastic[@]}" requeue --check --json -- train.py >checked.json
srun --ntasks-per-node=1 "${hpc_elastic[@]}" run --json train.py 30000 >ended.json; status=$?
"${hpc_elastic[@]}" requeue --json --step-status "$status" -- train.py >requeued.json
exit $?
"""


def answers(path: Path) -> list[dict[str, Any]]:
    """The objects in a file, one a line."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_each_step_of_a_batch_script_of_ones_own_tells_what_it_did_as_json(
    slurm_sandbox: Sandbox, user_dir: Path
) -> None:
    bench = Bench(slurm_sandbox, user_dir)
    for name, text in (("train.py", STEPPER), ("job.sh", BATCH)):
        (user_dir / name).write_text(text)
        (user_dir / name).chmod(0o644)
    job = slurm_sandbox.sbatch("-N2", "--signal=USR2@60", "job.sh", cwd=user_dir, env=bench.variables)
    log = bench.run_dir(job) / "logs" / "1" / "1" / "1.out"
    wait_until(lambda: log.exists() and "step 5\n" in log.read_text(), 60.0, bench.output(job))

    slurm_sandbox.run(["scancel", "--signal=USR2", job], check=True)
    slurm_sandbox.wait_for_state(job, "PENDING")
    slurm_sandbox.run(["scancel", job], check=True)

    (checked,) = answers(user_dir / "checked.json")
    first, second = sorted(answers(user_dir / "ended.json"), key=lambda one: str(one["node"]))
    (requeued,) = answers(user_dir / "requeued.json")
    assert (checked["job"], checked["warning"]) == (job, None)
    assert checked["directory"] == first["directory"] == second["directory"] == requeued["directory"]
    assert first["node"] != second["node"]
    assert (first["outcome"], second["outcome"], requeued["status"]) == ("saved", "saved", 80)
    assert (requeued["is_requeued"], requeued["reason"]) == (True, "told by the user")
    assert f"job {job}" in requeued["message"]
