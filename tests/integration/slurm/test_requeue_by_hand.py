"""The batch script that the help of `hpc-elastic requeue` shows, with `--json` for who wants to read it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from hpc_elastic.testing.sandbox.options import SandboxOptions
from tests.integration.agent.agents import STEPPER
from tests.integration.slurm.bench import Bench, a_sandbox
from tests.waiting import wait_until

pytestmark = [pytest.mark.needs_slurm, pytest.mark.timeout(600)]

BATCH: Final = """#!/bin/bash
#SBATCH --requeue --open-mode=append
trap : TERM USR2
hpc_elastic=("$HPC_ELASTIC_PYTHON" -m hpc_elastic)
start=${SLURM_RESTART_COUNT:-0}
"${hpc_elastic[@]}" requeue --check --json -- train.py >checked-$start.json
srun --ntasks-per-node=1 "${hpc_elastic[@]}" run --json train.py 300000 >ended-$start.json; status=$?
"${hpc_elastic[@]}" requeue --json --step-status "$status" -- train.py >requeued-$start.json
exit $?
"""


@pytest.fixture
def bench() -> Iterator[Bench]:
    """Where Slurm leaves the batch script the time to say what it has done."""
    with a_sandbox(SandboxOptions(nodes=2, kill_wait_s=60)) as sandbox:
        yield Bench(sandbox, sandbox.user_directory())


def answers(path: Path) -> list[dict[str, Any]]:
    """The objects in a file, one a line."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_each_step_of_a_batch_script_of_ones_own_tells_what_it_did_as_json(bench: Bench) -> None:
    sandbox, folder = bench.sandbox, bench.folder
    for name, text in (("train.py", STEPPER), ("job.sh", BATCH)):
        (folder / name).write_text(text)
        (folder / name).chmod(0o644)
    job = sandbox.sbatch("-N2", "--signal=USR2@60", "job.sh", cwd=folder, env=bench.variables)
    log = bench.run_dir(job) / "logs" / "1" / "1" / "1.out"
    wait_until(lambda: log.exists() and "step 5\n" in log.read_text(), 120.0, "both train")

    sandbox.run(["scancel", "--signal=USR2", job], check=True)
    bench.wait_for_restart(job)  # a moment before the script has said so
    wait_until((folder / "requeued-0.json").read_text, 120.0, "the script has said what it has done")
    sandbox.run(["scancel", job], check=True)

    (checked,) = answers(folder / "checked-0.json")
    first, second = sorted(answers(folder / "ended-0.json"), key=lambda one: str(one["node"]))
    (requeued,) = answers(folder / "requeued-0.json")
    assert (checked["job"], checked["warning"]) == (job, None)
    assert checked["directory"] == first["directory"] == second["directory"] == requeued["directory"]
    assert first["node"] != second["node"]
    assert (first["outcome"], second["outcome"], requeued["status"]) == ("saved", "saved", 80)
    assert (requeued["is_requeued"], requeued["reason"]) == (True, "told by the user")
    assert f"job {job}" in requeued["message"]
