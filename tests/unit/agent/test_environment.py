"""Workers get torchrun's variables, JAX's and ours, and nothing that misleads a framework."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

from hpc_elastic.agent import environment, ranks
from hpc_elastic.agent.environment import NodeRound
from hpc_elastic.agent.rundir import RunDirectory
from hpc_elastic.rendezvous.record import Member, Round

ROUND: Final = Round(
    number=4,
    attempts=(2,),
    members=(
        Member("2-a-1", "a", 2, "default", "10.0.0.1"),
        Member("2-b-2", "b", 1, "reader", "10.0.0.2"),
        Member("2-c-3", "c", 2, "default", "10.0.0.3"),
    ),
    master_address="10.0.0.1",
    master_port=4242,
    why="",
    failures=1,
    changes=2,
    created_at="",
    writer="2-a-1",
)
PLACE: Final = NodeRound(
    run_id="slurm-7",
    directory=RunDirectory(Path("/runs/7")),
    attempt=2,
    agreed=ROUND,
    node="2-c-3",
    max_restarts=3,
    cpus=8,
    page="9:/proc/1/fd/9",
)
# What srun gives to a task on 22.05.8, and what Lightning, JAX and Accelerate look at.
OF_SRUN: Final = {
    "PATH": "/bin",
    "SLURM_JOB_ID": "7",
    "SLURM_JOB_NAME": "train",
    "SLURM_JOB_NODELIST": "n[1-3]",
    "SLURM_CPUS_ON_NODE": "8",
    "SLURM_ARRAY_TASK_ID": "1",
    "SLURM_PROCID": "2",
    "SLURM_LOCALID": "0",
    "SLURM_NODEID": "2",
    "SLURM_NTASKS": "3",
    "SLURM_NPROCS": "3",
    "SLURM_STEP_NODELIST": "n[1-3]",
    "SLURM_STEPID": "0",
    "SLURM_STEP_ID": "0",
    "SLURM_TASKS_PER_NODE": "1(x3)",
    "PMI_RANK": "2",
    "PMIX_RANK": "2",
    "HPC_ELASTIC_NODE_NAME": "c",
    "HPC_ELASTIC_HOME": "/runs",
}


def made(index: int = 1, **changes: object) -> dict[str, str]:
    place = replace(PLACE, **changes)  # type: ignore[arg-type]
    return environment.of_worker(OF_SRUN, place, ranks.of_node(ROUND, 2)[index])


def test_torchruns_variables_are_complete() -> None:
    env = made()

    assert {name: env[name] for name in env if name.startswith(("TORCHELASTIC", "MASTER"))} == {
        "MASTER_ADDR": "10.0.0.1",
        "MASTER_PORT": "4242",
        "TORCHELASTIC_RESTART_COUNT": "1",
        "TORCHELASTIC_MAX_RESTARTS": "3",
        "TORCHELASTIC_RUN_ID": "slurm-7",
        "TORCHELASTIC_ERROR_FILE": "/runs/7/errors/2/4/4.json",
        "TORCHELASTIC_USE_AGENT_STORE": "False",
    }
    wanted = {
        "RANK": "4",
        "LOCAL_RANK": "1",
        "WORLD_SIZE": "5",
        "LOCAL_WORLD_SIZE": "2",
        "GROUP_RANK": "2",
        "GROUP_WORLD_SIZE": "3",
        "ROLE_NAME": "default",
        "ROLE_RANK": "3",
        "ROLE_WORLD_SIZE": "4",
    }
    assert {name: env[name] for name in wanted} == wanted


def test_jax_and_our_own_variables_are_there() -> None:
    env = made()

    assert env["JAX_COORDINATOR_ADDRESS"] == "10.0.0.1:4242"
    assert (env["JAX_NUM_PROCESSES"], env["JAX_PROCESS_ID"]) == ("5", "4")
    assert {name.removeprefix("HPC_ELASTIC_"): env[name] for name in env if name.startswith("HPC_")} == {
        "HOME": "/runs",
        "RUN_ID": "slurm-7",
        "RUN_DIR": "/runs/7",
        "CHECKPOINT_DIR": "/runs/7/checkpoints",
        "ATTEMPT": "2",
        "ROUND": "4",
        "NODE": "2-c-3",
        "NOTICE_FILE": "/runs/7/notices/2/4/2-c-3.json",
        "PAGE": "9:/proc/1/fd/9",
        "LOCAL_SLOT": "1",
        "RESTART_COUNT": "1",
        "MEMBERSHIP_CHANGES": "2",
    }


def test_what_makes_a_framework_believe_in_srun_is_removed_and_the_job_stays() -> None:
    slurm = {name for name in made() if name.startswith(("SLURM", "PMI"))}

    assert slurm == {
        "SLURM_JOB_ID",
        "SLURM_JOB_NAME",
        "SLURM_JOB_NODELIST",
        "SLURM_CPUS_ON_NODE",
        "SLURM_ARRAY_TASK_ID",
    }


def test_slurms_variables_stay_when_they_are_asked_for() -> None:
    assert made(keeps_slurm=True)["SLURM_PROCID"] == "2"


def test_threads_are_the_share_of_the_cpus_unless_they_are_set() -> None:
    assert made()["OMP_NUM_THREADS"] == "4"

    place = ranks.of_node(ROUND, 2)[0]
    assert environment.of_worker({"OMP_NUM_THREADS": "1"}, PLACE, place)["OMP_NUM_THREADS"] == "1"


def test_a_given_master_replaces_the_agreed_one() -> None:
    env = made(master_address="fe80::1", master_port=99)

    assert (env["MASTER_ADDR"], env["MASTER_PORT"]) == ("fe80::1", "99")
    assert env["JAX_COORDINATOR_ADDRESS"] == "[fe80::1]:99"


def test_ranks_of_all_nodes_are_consecutive_for_unequal_nodes_and_roles() -> None:
    every = [each for node in range(3) for each in ranks.of_node(ROUND, node)]

    assert [each.global_rank for each in every] == [0, 1, 2, 3, 4]
    assert [each.role_rank for each in every if each.role == "default"] == [0, 1, 2, 3]
    assert [(each.role_rank, each.role_world_size) for each in every if each.role == "reader"] == [(0, 1)]


def test_a_worker_is_not_told_the_password_of_the_agents_etcd() -> None:
    env = {"PATH": "/bin", "HPC_ELASTIC_ETCD_PASSWORD": "secret", "HPC_ELASTIC_GRACE_S": "20"}

    assert environment.cleaned(env, keeps_slurm=True) == {"PATH": "/bin"}
