"""`logs -f` of a job of one's own script: from before its start, over a requeue, to its end in the queue."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import pytest

from hpc_elastic.testing.sandbox import Sandbox
from tests.integration.agent.agents import STEPPER
from tests.integration.slurm.bench import Bench
from tests.waiting import wait_until

pytestmark = [pytest.mark.needs_slurm, pytest.mark.timeout(600)]

END_S: Final = 180.0
FOLLOW: Final = '"$HPC_ELASTIC_PYTHON" -m hpc_elastic logs "$1" -f 2>told.txt'


@pytest.mark.parametrize("by_ours", [False, True], ids=["scancel", "drain"])
def test_logs_wait_for_a_held_job_and_end_when_it_is_taken_out_of_the_queue(
    slurm_sandbox: Sandbox, user_dir: Path, by_ours: bool
) -> None:
    bench = Bench(slurm_sandbox, user_dir)
    (user_dir / "train.py").write_text(STEPPER)
    (user_dir / "train.py").chmod(0o644)
    job = bench.submit("-N1", "--hold", "--signal=USR2@60", words=("train.py", "30000"))
    told = user_dir / "told.txt"

    with ThreadPoolExecutor(1) as threads:
        follow = ["timeout", str(2 * END_S), "bash", "-c", FOLLOW, "bash", job]
        following = threads.submit(
            slurm_sandbox.run, follow, cwd=user_dir, env=bench.variables, timeout_s=3 * END_S
        )
        wait_until(
            lambda: told.exists() and "waiting for its run to begin" in told.read_text(), END_S, "it waits"
        )
        slurm_sandbox.run(["scontrol", "release", job], check=True)
        log = bench.run_dir(job) / "logs" / "1" / "1" / "0.out"
        wait_until(lambda: log.exists() and "step 5\n" in log.read_text(), END_S, bench.output(job))
        # While it runs this is for its requeue; afterwards it might run again by the time of the order.
        slurm_sandbox.run(["scontrol", "hold", job], check=True)
        slurm_sandbox.run(["scancel", "--signal=USR2", job], check=True)
        slurm_sandbox.wait_for_state(job, "PENDING", timeout_s=END_S)

        if by_ours:
            drain = [bench.variables["HPC_ELASTIC_PYTHON"], "-m", "hpc_elastic", "drain", job]
            done = slurm_sandbox.run(drain, cwd=user_dir, env=bench.variables, check=True)
            assert "was waiting and is cancelled: what it saved before stays" in done.stdout
        else:
            slurm_sandbox.run(["scancel", job], check=True)
        followed = following.result()

    assert followed.returncode == 0, told.read_text()
    assert log.read_text() in followed.stdout
    assert bench.run(job).is_over == by_ours, "a plain scancel leaves no word"
