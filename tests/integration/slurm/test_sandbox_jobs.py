"""What the sandbox does to jobs: preemptions, dead nodes, the environment, accounting."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from hpc_elastic.errors import SandboxError, UsageError
from hpc_elastic.testing.sandbox import Sandbox, evidence
from tests.integration.slurm.bench import ENDED
from tests.integration.slurm.sandbox_traces import OUTLIVES_ITS_JOB, assert_nothing_left, commands_of
from tests.waiting import wait_until

pytestmark = [pytest.mark.needs_slurm, pytest.mark.timeout(900)]

Make = Callable[..., Sandbox]
LONG_S: Final = 120.0


def is_in_output(folder: Path, words: str) -> bool:
    return (folder / "out").exists() and words in (folder / "out").read_text()


def test_jobs_get_the_opt_in_even_with_an_empty_environment(slurm_sandbox: Sandbox, user_dir: Path) -> None:
    script = "/usr/bin/srun -N4 /usr/bin/env"

    job = slurm_sandbox.sbatch("-N4", "--export=NONE", "-o", "out", "--wrap", script, cwd=user_dir)
    slurm_sandbox.wait_for_state(job, "COMPLETED", timeout_s=LONG_S)

    printed = (user_dir / "out").read_text().splitlines()
    assert printed.count("HPC_ELASTIC_ALLOW_LOOPBACK=1") == 4
    assert printed.count(f"HPC_ELASTIC_SANDBOX={slurm_sandbox.directory}") == 4
    marks = sorted(line for line in printed if line.startswith("HPC_ELASTIC_SANDBOX_NODE="))
    assert marks == [f"HPC_ELASTIC_SANDBOX_NODE={node}" for node in slurm_sandbox.nodes]


def test_a_preempted_job_is_requeued_and_runs_again(make_slurm_sandbox: Make) -> None:
    sandbox = make_slurm_sandbox(nodes=2, grace_s=2)
    folder = sandbox.user_directory()
    script = "echo life ${SLURM_RESTART_COUNT:-0}; sleep 600"
    job = sandbox.sbatch("-N2", "--open-mode=append", "-o", "out", "--wrap", script, cwd=folder)
    sandbox.wait_for_state(job, "RUNNING", timeout_s=LONG_S)
    wait_until(lambda: is_in_output(folder, "life 0"), LONG_S, "the first life's line")

    sandbox.preempt(job, seconds=1)
    wait_until(lambda: sandbox.job(job)["Restarts"] == "1", LONG_S, "it is in the queue again")
    again = sandbox.wait_for_state(job, "RUNNING", timeout_s=LONG_S)

    assert again["Restarts"] == "1"
    wait_until(lambda: is_in_output(folder, "life 1"), LONG_S, "the second life's line")
    assert (folder / "out").read_text().startswith("life 0\n")
    sandbox.down()
    assert_nothing_left(sandbox.layout)


def test_with_cancel_a_preempted_job_does_not_come_back(make_slurm_sandbox: Make) -> None:
    sandbox = make_slurm_sandbox(nodes=1, grace_s=1, preempt_mode="cancel")
    job = sandbox.sbatch("-o/dev/null", "--wrap", "sleep 600")
    sandbox.wait_for_state(job, "RUNNING", timeout_s=LONG_S)

    preempting = sandbox.preempt(job, seconds=1)

    sandbox.wait_for_state(preempting, "COMPLETED", timeout_s=LONG_S)
    assert sandbox.job(job)["JobState"] == "PREEMPTED"
    sandbox.down()


def test_with_the_user_signal_a_preemption_sends_the_jobs_own(make_slurm_sandbox: Make) -> None:
    sandbox = make_slurm_sandbox(nodes=1, grace_s=60, user_signal=True)
    folder = sandbox.user_directory()
    traps = "trap 'echo USR2; exit 0' USR2; trap 'echo TERM; exit 0' TERM"
    step = f'srun sh -c "{traps}; echo ready; while :; do sleep 0.1; done"'
    job = sandbox.sbatch("--signal=USR2@60", "-t30", "-o", "out", "--wrap", step, cwd=folder)
    wait_until(lambda: is_in_output(folder, "ready"), LONG_S, "the trap")

    sandbox.preempt(job, seconds=1)

    sandbox.wait_for_state(job, ENDED, timeout_s=LONG_S)
    said = (folder / "out").read_text().splitlines()
    assert said[0] == "ready"
    assert "USR2" in said
    assert "TERM" not in said
    sandbox.down()


def test_a_job_that_does_not_run_cannot_be_preempted(slurm_sandbox: Sandbox) -> None:
    job = slurm_sandbox.sbatch("--hold", "-o/dev/null", "--wrap", "true")

    with pytest.raises(SandboxError, match=f"job {job} is PENDING, not RUNNING"):
        slurm_sandbox.preempt(job)

    slurm_sandbox.run(["scancel", job], check=True)


def test_killing_a_node_ends_its_processes_and_no_others(make_slurm_sandbox: Make) -> None:
    sandbox = make_slurm_sandbox(nodes=3)
    job = sandbox.sbatch(
        "-N3",
        "--no-kill",
        "-o/dev/null",
        "--wrap",
        f"srun --no-kill -K0 -N3 sh -c '{OUTLIVES_ITS_JOB} sleep 600'",
    )
    sandbox.wait_for_state(job, "RUNNING", timeout_s=LONG_S)
    wait_until(lambda: len(commands_of(sandbox.layout, "sleep")) == 6, LONG_S, "two processes on each node")

    assert sandbox.kill_node("n2") >= 4

    assert not evidence.of_node(sandbox.layout, "n2")
    assert len(commands_of(sandbox.layout, "sleep")) == 4
    wait_until(
        lambda: sandbox.node_states()["n2"].startswith("down"), LONG_S, "Slurm's notice of the dead node"
    )
    assert sandbox.job(job)["JobState"] == "RUNNING"
    with pytest.raises(SandboxError, match="node n2 is not running"):
        sandbox.kill_node(2)

    sandbox.start_node(2, timeout_s=LONG_S)

    wait_until(lambda: sandbox.node_states()["n2"] == "idle", LONG_S, "the node takes jobs again")
    assert sandbox.run(["srun", "-N1", "-w", "n2", "hostname"]).returncode == 0
    with pytest.raises(UsageError, match="node 4: this sandbox has n1 to n3"):
        sandbox.start_node(4)
    sandbox.down()
    assert_nothing_left(sandbox.layout)


@pytest.mark.needs_accounting
def test_accounting_makes_sacct_work(make_slurm_sandbox: Make) -> None:
    sandbox = make_slurm_sandbox(nodes=1, accounting=True)

    job = sandbox.sbatch("-o/dev/null", "--wrap", "exit 3")
    sandbox.wait_for_state(job, "FAILED", timeout_s=LONG_S)

    sacct = ["sacct", "-n", "-X", "-P", "-j", job, "-o", "State,ExitCode"]
    wait_until(lambda: sandbox.run(sacct).stdout.strip() == "FAILED|3:0", LONG_S, "the job in the database")
    sandbox.down()
    assert_nothing_left(sandbox.layout)
