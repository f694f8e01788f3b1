"""The environment of a worker: torchrun's variables, JAX's and ours, and nothing that misleads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hpc_elastic.agent import devices
from hpc_elastic.agent.ranks import WorkerRanks
from hpc_elastic.agent.rundir import RunDirectory
from hpc_elastic.rendezvous.record import Round
from hpc_elastic.values import dataclass

# What makes a framework believe that srun started the worker itself, as one of SLURM_NTASKS tasks
# (Lightning, JAX, Accelerate, DeepSpeed), or that an MPI launcher did. The job's own facts stay.
_MISLEADING: Final = frozenset(
    {
        "SLURM_DISTRIBUTION",
        "SLURM_GTIDS",
        "SLURM_LAUNCH_NODE_IPADDR",
        "SLURM_LOCALID",
        "SLURM_MPI_TYPE",
        "SLURM_NNODES",
        "SLURM_NODEID",
        "SLURM_NPROCS",
        "SLURM_NTASKS",
        "SLURM_NTASKS_PER_NODE",
        "SLURM_PROCID",
        "SLURM_SRUN_COMM_HOST",
        "SLURM_SRUN_COMM_PORT",
        "SLURM_TASKS_PER_NODE",
        "SLURM_TASK_PID",
    }
)
_MISLEADING_PREFIXES: Final = ("SLURM_STEP", "SLURM_PMI", "PMI_", "PMIX_", "PMI2_", "PALS_")
# Said to the agent alone: who it is, for a worker that starts an agent must not pass for it, and what it
# may know or needs to know and no training script does.
_OF_THE_AGENT: Final = frozenset(
    {
        "HPC_ELASTIC_ETCD_PASSWORD",
        "HPC_ELASTIC_GRACE_S",
        "HPC_ELASTIC_JOB_ID",
        "HPC_ELASTIC_NODE_COUNT",
        "HPC_ELASTIC_NODE_INDEX",
        "HPC_ELASTIC_NODE_NAME",
    }
)


@dataclass(frozen=True)
class NodeRound:
    """What all workers of one node have in common in one round.

    `cpus` is how many CPUs the agent may use; `page` is the value of HPC_ELASTIC_PAGE.
    """

    run_id: str
    directory: RunDirectory
    attempt: int
    agreed: Round
    node: str
    max_restarts: int
    cpus: int
    page: str
    keeps_slurm: bool = False
    master_address: str = ""
    master_port: int = 0
    virtual_local_rank: bool = False


def cleaned(base: Mapping[str, str], *, keeps_slurm: bool) -> dict[str, str]:
    """`base` without what misleads frameworks, and without what tells an agent who it is."""
    return {
        name: value
        for name, value in base.items()
        if name not in _OF_THE_AGENT and (keeps_slurm or not _misleads(name))
    }


def _misleads(name: str) -> bool:
    return name in _MISLEADING or name.startswith(_MISLEADING_PREFIXES)


def of_worker(base: Mapping[str, str], place: NodeRound, ranks: WorkerRanks) -> dict[str, str]:
    """The whole environment of one worker; `base` is the agent's own."""
    env = cleaned(base, keeps_slurm=place.keeps_slurm)
    env.update(_of_torchrun(place, ranks))
    env.update(_of_jax(place, ranks))
    env.update(_of_ours(place, ranks))
    if place.virtual_local_rank:
        env.update({**devices.own_device(env, ranks.local_rank), "LOCAL_RANK": "0"})
    # A rank that spreads over all CPUs beside its siblings is slower than one that keeps to its share;
    # torchrun's 1 leaves most of a node idle. MKL, OpenBLAS and NumExpr take it where theirs is not set.
    env.setdefault("OMP_NUM_THREADS", str(max(1, place.cpus // ranks.local_world_size)))
    env.setdefault("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1")
    return env


def of_health_command(
    base: Mapping[str, str], run_id: str, directory: RunDirectory, attempt: int, node: str
) -> dict[str, str]:
    """The environment of the health command: the agent's, and which node of which run it is about."""
    return {
        **cleaned(base, keeps_slurm=True),
        "HPC_ELASTIC_RUN_ID": run_id,
        "HPC_ELASTIC_RUN_DIR": str(directory.path),
        "HPC_ELASTIC_ATTEMPT": str(attempt),
        "HPC_ELASTIC_NODE": node,
    }


def _master(place: NodeRound) -> tuple[str, str]:
    address = place.master_address or place.agreed.master_address
    return address, str(place.master_port or place.agreed.master_port)


def _of_torchrun(place: NodeRound, ranks: WorkerRanks) -> dict[str, str]:
    address, port = _master(place)
    errors = place.directory.errors(place.attempt, place.agreed.number)
    return {
        "LOCAL_RANK": str(ranks.local_rank),
        "RANK": str(ranks.global_rank),
        "GROUP_RANK": str(ranks.group_rank),
        "ROLE_RANK": str(ranks.role_rank),
        "ROLE_NAME": ranks.role,
        "LOCAL_WORLD_SIZE": str(ranks.local_world_size),
        "WORLD_SIZE": str(ranks.world_size),
        "GROUP_WORLD_SIZE": str(ranks.group_world_size),
        "ROLE_WORLD_SIZE": str(ranks.role_world_size),
        "MASTER_ADDR": address,
        "MASTER_PORT": port,
        "TORCHELASTIC_RESTART_COUNT": str(place.agreed.failures),
        "TORCHELASTIC_MAX_RESTARTS": str(place.max_restarts),
        "TORCHELASTIC_RUN_ID": place.run_id,
        "TORCHELASTIC_ERROR_FILE": str(errors / f"{ranks.global_rank}.json"),
        # The port of MASTER_PORT is free: rank 0 listens there, not the agent.
        "TORCHELASTIC_USE_AGENT_STORE": "False",
    }


def _of_jax(place: NodeRound, ranks: WorkerRanks) -> dict[str, str]:
    address, port = _master(place)
    return {
        "JAX_COORDINATOR_ADDRESS": f"[{address}]:{port}" if ":" in address else f"{address}:{port}",
        "JAX_NUM_PROCESSES": str(ranks.world_size),
        "JAX_PROCESS_ID": str(ranks.global_rank),
    }


def _of_ours(place: NodeRound, ranks: WorkerRanks) -> dict[str, str]:
    directory, agreed = place.directory, place.agreed
    return {
        "HPC_ELASTIC_RUN_ID": place.run_id,
        "HPC_ELASTIC_RUN_DIR": str(directory.path),
        "HPC_ELASTIC_CHECKPOINT_DIR": str(directory.checkpoints),
        "HPC_ELASTIC_ATTEMPT": str(place.attempt),
        "HPC_ELASTIC_ROUND": str(agreed.number),
        "HPC_ELASTIC_NODE": place.node,
        "HPC_ELASTIC_NOTICE_FILE": str(directory.notice(place.attempt, agreed.number, place.node)),
        "HPC_ELASTIC_PAGE": place.page,
        "HPC_ELASTIC_LOCAL_SLOT": str(ranks.local_rank),
        "HPC_ELASTIC_RESTART_COUNT": str(agreed.failures),
        "HPC_ELASTIC_MEMBERSHIP_CHANGES": str(agreed.changes),
    }
