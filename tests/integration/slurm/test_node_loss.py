"""A node, an agent, srun or the batch host of a job on a real Slurm is lost, and the run goes on."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import pytest

from hpc_elastic.rendezvous.record import Outcome, Reason
from hpc_elastic.testing.sandbox.options import SandboxOptions
from hpc_elastic.testing.sandbox.sandbox import Sandbox
from tests.integration.slurm.bench import ENDED, Bench, a_sandbox
from tests.integration.slurm.digits_job import (
    MANY_STEPS,
    hurry,
    logs,
    processes_of,
    steps_of,
    unhurried_digits,
    wait_for_step,
)
from tests.waiting import wait_until

pytestmark = [pytest.mark.needs_slurm, pytest.mark.timeout(900)]

CONF: Final = "heartbeat=1.5"
TWO: Final = ("-N", "2", "--nodelist=n[1-2]")
THREE: Final = ("-N", "3", "--nodelist=n[1-3]")
LONG_S: Final = 240.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[Sandbox]:
    with a_sandbox(SandboxOptions(grace_s=20, kill_wait_s=30)) as sandbox:
        yield sandbox


@pytest.fixture(scope="module")
def slow_to_notice() -> Iterator[Sandbox]:
    """A Slurm that takes a silent node for dead long after the agents have."""
    with a_sandbox(SandboxOptions(nodes=3, slurmd_timeout_s=600)) as sandbox:
        yield sandbox


@pytest.fixture
def bench(cluster: Sandbox) -> Bench:
    return Bench(cluster, cluster.user_directory())


@contextmanager
def killed(sandbox: Sandbox, node: str) -> Iterator[None]:
    """Meanwhile the node is dead."""
    sandbox.kill_node(node)
    try:
        yield
    finally:
        sandbox.start_node(node, timeout_s=90.0)


def test_the_survivors_of_a_killed_node_form_a_new_round_before_slurm_notices_and_finish(
    slow_to_notice: Sandbox,
) -> None:
    bench = Bench(slow_to_notice, slow_to_notice.user_directory())
    job = bench.submit(*THREE, words=unhurried_digits("--nnodes", "2:3", "--rdzv-conf", CONF))
    wait_for_step(bench, job, 10)

    with killed(bench.sandbox, "n2"):
        wait_until(
            lambda: len([one for one in bench.run(job).rounds if one.has_started]) == 2,
            LONG_S,
            "a second round starts",
        )
        hurry(bench, job)
        assert "down" not in bench.sandbox.node_states()["n2"], "Slurm has not noticed yet"
        wait_until(lambda: bench.run(job).has_succeeded, LONG_S, "the survivors finish")
    state, code, lines = bench.end_of(job, timeout_s=LONG_S)

    assert (state, code) == ("COMPLETED", "0:0"), "\n".join(lines)
    first, second = bench.run(job).rounds
    assert [member.name for member in first.members] == ["n1", "n2", "n3"]
    assert [member.name for member in second.members] == ["n1", "n3"]
    assert second.proposal.failures == 0, "a lost node is no failure of the script"
    assert steps_of(logs(bench, job, 0)[-1])[-1] == MANY_STEPS - 1
    assert bench.sandbox.job(job)["Restarts"] == "0"


def test_a_run_that_is_done_ends_its_job_although_srun_waits_for_a_node_that_came_back(
    slow_to_notice: Sandbox,
) -> None:
    """Slurm has not taken the node for dead, so for srun the task on it still runs."""
    bench = Bench(slow_to_notice, slow_to_notice.user_directory())
    job = bench.submit(*THREE, words=unhurried_digits("--nnodes", "1:3", "--rdzv-conf", CONF))
    wait_for_step(bench, job, 10)

    with killed(bench.sandbox, "n2"):
        hurry(bench, job)
    state, code, lines = bench.end_of(job, timeout_s=LONG_S)

    assert (state, code) == ("COMPLETED", "0:0"), "\n".join(lines)
    assert bench.run(job).has_succeeded
    assert bench.sandbox.job(job)["Restarts"] == "0"
    wait_until(lambda: processes_of(bench.sandbox, job) == [], 60.0, "no process is left")


def test_a_fixed_world_whose_agent_alone_was_killed_comes_back_soon_and_finishes(bench: Bench) -> None:
    job = bench.submit(*TWO, words=unhurried_digits("--rdzv-conf", f"{CONF},last_call_timeout=3"))
    wait_for_step(bench, job, 60)

    os.kill(agent_of(bench, job, "n2"), signal.SIGKILL)
    wait_until(lambda: bench.sandbox.job(job)["Restarts"] == "1", LONG_S, "the job is requeued")
    hurry(bench, job)
    state, code, lines = bench.end_of(job, timeout_s=LONG_S)

    assert (state, code) == ("COMPLETED", "0:0"), "\n".join(lines)
    assert bench.sandbox.job(job)["Restarts"] == "1"
    told = bench.run(job).attempts[0].why_stopped
    assert told is not None
    assert told.reason is Reason.NODE_FAILURE
    assert steps_of(logs(bench, job, 0)[-1])[0] > 0, "it resumed from the periodic save"


def test_a_job_whose_srun_was_killed_with_all_agents_comes_back_and_finishes(bench: Bench) -> None:
    job = bench.submit(*TWO, words=unhurried_digits("--rdzv-conf", CONF))
    wait_for_step(bench, job, 60)

    for pid in pids_of(bench, job, b"srun --nodes", node="n1"):
        with suppress(ProcessLookupError):  # there are two, and one may go with the other
            os.kill(pid, signal.SIGKILL)
    wait_until(lambda: bench.sandbox.job(job)["Restarts"] == "1", LONG_S, "the job is requeued")
    hurry(bench, job)
    state, code, lines = bench.end_of(job, timeout_s=LONG_S)

    assert (state, code) == ("COMPLETED", "0:0"), "\n".join(lines)
    assert any("agents ended without a word (srun status 137)" in line for line in lines)
    assert bench.sandbox.job(job)["Restarts"] == "1"


def test_survivors_of_the_batch_host_finish_and_the_last_one_out_ends_the_job(bench: Bench) -> None:
    job = bench.submit(*THREE, words=unhurried_digits("--nnodes", "1:3", "--rdzv-conf", CONF))
    wait_for_step(bench, job, 10)

    with killed(bench.sandbox, "n1"):
        hurry(bench, job)
        wait_until(lambda: bench.run(job).has_succeeded, LONG_S, "the survivors finish")
        bench.sandbox.wait_for_state(job, ENDED, timeout_s=LONG_S)
        wait_until(lambda: processes_of(bench.sandbox, job) == [], 60.0, "no process is left")

    assert [member.name for member in bench.run(job).rounds[-1].members] == ["n2", "n3"]
    assert bench.sandbox.job(job)["Restarts"] == "0"


def test_survivors_of_the_batch_host_that_are_preempted_are_requeued_by_the_last_one_out(
    bench: Bench,
) -> None:
    job = bench.submit(*THREE, words=unhurried_digits("--nnodes", "1:3", "--rdzv-conf", CONF))
    wait_for_step(bench, job, 10)

    with killed(bench.sandbox, "n1"):
        wait_until(
            lambda: len(logs(bench, job, 0)) > 1 and len(steps_of(logs(bench, job, 0)[-1])) > 5,
            LONG_S,
            "a later round trains",
        )
        bench.sandbox.run(["scancel", "--signal=USR2", job], check=True)
        wait_until(lambda: bench.sandbox.job(job)["Restarts"] == "1", LONG_S, "the job is requeued")
        hurry(bench, job)
    state, code, lines = bench.end_of(job, timeout_s=LONG_S)

    assert (state, code) == ("COMPLETED", "0:0"), "\n".join(lines)
    assert {one.outcome for one in bench.run(job).presences if one.attempt == 1} == {None, Outcome.SAVED}
    assert len(bench.run(job).attempts[0].requeues) == 1


def test_a_fixed_world_that_lost_a_node_is_requeued_to_others_and_finishes(bench: Bench) -> None:
    job = bench.submit("-N", "2", words=unhurried_digits("--rdzv-conf", f"{CONF},last_call_timeout=5"))
    wait_for_step(bench, job, 60)  # past the first periodic save
    second = bench.run(job).rounds[0].members[1].name

    with killed(bench.sandbox, second):
        hurry(bench, job)
        state, code, lines = bench.end_of(job, timeout_s=LONG_S)

    assert (state, code) == ("COMPLETED", "0:0"), "\n".join(lines)
    assert bench.sandbox.job(job)["Restarts"] == "1"
    assert second not in {member.name for member in bench.run(job).rounds[-1].members}
    assert steps_of(logs(bench, job, 0)[-1])[-1] == MANY_STEPS - 1
    assert steps_of(logs(bench, job, 0)[-1])[0] > 0, "it resumed from the periodic save"


def agent_of(bench: Bench, job: str, node: str) -> int:
    (pid,) = [
        pid
        for pid in pids_of(bench, job, b"-m hpc_elastic run", node=node)
        if Path(f"/proc/{pid}/comm").read_text().strip() != "srun"
    ]
    return pid


def pids_of(bench: Bench, job: str, words: bytes, *, node: str) -> list[int]:
    """Processes of the job on a node, by words of their command lines."""
    marks = {
        f"SLURM_JOB_ID={job}".encode(),
        f"SLURM_CLUSTER_NAME={bench.sandbox.cluster}".encode(),
        f"SLURMD_NODENAME={node}".encode(),
    }
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            environment = set((folder / "environ").read_bytes().split(b"\0"))
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ")
        except OSError:
            continue
        if marks <= environment and words in command:
            found.append(int(folder.name))
    return found
