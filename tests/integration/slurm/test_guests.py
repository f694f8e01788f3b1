"""Jobs that join the run of another on a real Slurm, and leave it, each in its own way."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from hpc_elastic.testing.etcd_server import EtcdServer
from tests.integration.slurm.bench import ENDED, Bench
from tests.integration.slurm.digits_job import processes_of
from tests.integration.slurm.pool_bench import Pool
from tests.waiting import wait_until

pytestmark = [pytest.mark.needs_slurm, pytest.mark.timeout(600)]


def test_a_guest_of_two_nodes_comes_in_one_round_is_preempted_alone_comes_back_and_ends_with_the_run(
    bench: Bench,
) -> None:
    run = Pool.of_one_job(bench, 2, 4)
    run.wait_for_world(2)

    guest = run.join("-c2", "--nodes=2")
    run.wait_for_world(4)
    bench.sandbox.preempt(guest, seconds=1)
    run.wait_for_world(2)
    run.wait_for_world(4)
    late = run.join("-c2", "--nodes=3")  # nor are there so many free before both jobs have ended
    run.let_end()
    ends = {job: bench.sandbox.wait_for_state(job, ENDED) for job in (run.array, guest, late)}

    worlds = [len(one.members) for one in run.rounds()]
    assert worlds == [2, 4, 2, 4], "two nodes that come at once cost one round"
    assert [(one["JobState"], one["ExitCode"], one["Restarts"]) for one in ends.values()] == [
        ("COMPLETED", "0:0", "0"),
        ("COMPLETED", "0:0", "1"),
        ("CANCELLED", "0:0", "0"),
    ], bench.output(run.array)
    assert run.gaps() == []
    assert run.rounds()[-1].proposal.failures == 0
    for job in (guest, run.array):  # a worker has the run in its environment
        wait_until(lambda job=job: processes_of(bench.sandbox, job) == [], 120.0, f"nothing is left of {job}")  # type: ignore[misc]


def test_a_second_job_joins_a_running_run_and_only_its_node_leaves_when_it_is_cancelled(bench: Bench) -> None:
    run = Pool.of_one_job(bench, 2, 3)
    hosts = run.wait_for_world(2).members

    joined = run.join("-c2", "--json")
    assert [one.name for one in run.wait_for_world(3).members][:2] == [one.name for one in hosts]
    bench.sandbox.run(["scancel", joined], check=True)
    run.wait_for_world(2)
    bench.sandbox.wait_for_state(joined, "CANCELLED")
    run.let_end()
    state, _, lines = bench.end_of(run.array)

    assert state == "COMPLETED", "\n".join(lines)
    assert run.gaps() == []
    assert run.rounds()[-1].proposal.failures == 0
    assert bench.sandbox.job(run.array)["Restarts"] == bench.sandbox.job(joined)["Restarts"] == "0"


@pytest.mark.needs_etcd
def test_a_guest_comes_and_goes_where_the_run_meets_in_etcd(bench: Bench, etcd_server: EtcdServer) -> None:
    run = Pool.of_one_job(bench, 2, 3, "--rdzv-backend=etcd", f"--rdzv-endpoint={etcd_server.endpoint}")
    run.wait_for_world(2)

    guest = run.join("-c2")
    run.wait_for_world(3)
    bench.sandbox.run(["scancel", guest], check=True)
    run.wait_for_world(2)
    run.let_end()
    state, _, lines = bench.end_of(run.array)

    assert state == "COMPLETED", "\n".join(lines)
    assert run.gaps() == []
    assert run.rounds()[-1].proposal.failures == 0


def test_a_job_joins_a_pool_and_a_cancel_of_the_pool_ends_it_also_while_it_waits_to_come_back(
    bench: Bench,
) -> None:
    pool = Pool.submit(bench, size=2, most=3)
    pool.wait_for_world(2)

    guest = pool.join("-c2")
    pool.wait_for_world(3)
    bench.sandbox.run(["scontrol", "hold", guest], check=True)  # for its requeue: then it waits
    bench.sandbox.preempt(guest, seconds=1)
    pool.wait_for_world(2)
    bench.sandbox.wait_for_state(guest, "PENDING")
    assert pool.gaps() == []
    assert pool.rounds()[-1].proposal.failures == 0
    told = pool.type("cancel", str(bench.run_dir(pool.array)), check=True)

    assert told.stdout.strip() == f"job {pool.array} is being ended, with the job that joins it: {guest}"
    for job in (f"{pool.array}_0", f"{pool.array}_1", guest):
        bench.sandbox.wait_for_state(job, "CANCELLED")
    assert pool.starts() == [0, 0]


def test_what_cannot_be_joined_is_refused_at_once(bench: Bench) -> None:
    foreign = bench.sandbox.directory.parent / "runs" / "another"
    foreign.mkdir(parents=True, mode=0o755)
    (foreign / "run.json").touch()

    def type_(*words: str) -> tuple[int, str]:
        command = [sys.executable, "-m", "hpc_elastic", *words]
        env = bench.variables | {"HPC_ELASTIC_HOME": str(foreign.parent)}
        done = bench.sandbox.run(command, cwd=bench.folder, env=env)
        return done.returncode, f"{done.stdout}{done.stderr}"

    status, said = type_("join", "another")
    assert (status, "belongs to root, and only its owner can do that" in said) == (64, True), said
    foreign.chmod(0o700)
    status, said = type_("join", "another")
    assert (status, "belongs to root, and you may not read it" in said) == (64, True), said
    assert type_("status") == (0, ""), "what others keep to themselves is not listed"
    status, said = type_("join", "nowhere")
    assert (status, "there is no run 'nowhere'" in said) == (64, True), said

    missing = bench.folder / "missing"
    words = ("--guest", "--rdzv-id=x", f"--run-dir={missing}", "--nnodes=1:2", str(Path(__file__)))
    state, code, lines = bench.end_of(bench.submit("-N1", words=words))
    assert (state, code) == ("FAILED", "64:0")
    assert f"nothing has started in {missing}" in "\n".join(lines)
    assert not missing.exists()
