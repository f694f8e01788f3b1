"""What Slurm tells a process through its environment, parsed once into a frozen value."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from hpc_elastic.errors import BadEnvironment, UsageError
from hpc_elastic.slurm import nodelist
from hpc_elastic.values import dataclass

# What Slurm says of the job, read by the batch shell outside a container.
JOB_RECORD: Final = "HPC_ELASTIC_JOB_RECORD"

_COUNTS = re.compile(r"([0-9]{1,9})(?:\(x([0-9]{1,9})\))?")
_TYPED_COUNT = re.compile(r"(?:[^:,]+:)?([0-9]{1,9})")
_FOREIGN = re.compile(r"[^A-Za-z0-9._-]+")
# Slurm numbers its own steps (batch, extern, interactive) down from 0xfffffffe, and 26.05.5 tells the batch
# script so, as -5.
_FIRST_STEP_OF_SLURM: Final = 0xFFFFFF00


class TooManyTasks(UsageError):
    """More than one agent on a node; one agent starts all workers of its node."""

    def __init__(self, *, variable: str, value: str) -> None:
        self.variable, self.value = variable, value
        super().__init__(
            f"{variable}={value}: more than one agent on a node; one agent per node starts all its "
            "workers: submit with --ntasks-per-node=1 and give the workers by --nproc-per-node"
        )


@dataclass(frozen=True)
class JobEnvironment:
    """One process's place in its Slurm job.

    `node_names` is in Slurm's order: that of the step's nodes within a step, else of the job's.
    `node_name` is empty and `node_index` -1 where the process is on none of them (a login node).
    `gpus` is what Slurm says it gave to the node, 0 if nothing. `is_step` is false in the batch shell.
    """

    cluster: str
    job_id: str
    array_job_id: str
    array_task_id: str
    restart_count: int
    node_names: tuple[str, ...]
    node_name: str
    node_index: int
    tasks_per_node: int
    cpus_on_node: int
    gpus: int
    is_step: bool

    @classmethod
    def parse(cls, environment: Mapping[str, str]) -> JobEnvironment | None:
        """The job this process belongs to, or None outside Slurm.

        Raises `BadEnvironment` where a variable is malformed, `TooManyTasks` where a step or a job
        was given more than one task per node.
        """
        job_id = environment.get("SLURM_JOB_ID", "")
        if not job_id:
            return None
        is_step = _is_step(environment)
        node_names = _node_names(environment, is_step)
        node_name = environment.get("SLURMD_NODENAME", "")
        return cls(
            cluster=environment.get("SLURM_CLUSTER_NAME", "") or "slurm",
            job_id=job_id,
            array_job_id=environment.get("SLURM_ARRAY_JOB_ID", ""),
            array_task_id=environment.get("SLURM_ARRAY_TASK_ID", ""),
            # Unset, not 0, in the first life of a job (22.05.8).
            restart_count=_number(environment, "SLURM_RESTART_COUNT", default=0),
            node_names=node_names,
            node_name=node_name,
            node_index=_index_of(node_name, node_names, environment),
            tasks_per_node=_tasks_per_node(environment, is_step),
            cpus_on_node=_number(environment, "SLURM_CPUS_ON_NODE", default=0),
            gpus=_count_of_gpus(environment.get("SLURM_GPUS_ON_NODE", "")),
            is_step=is_step,
        )

    @property
    def nnodes(self) -> int:
        """The number of nodes."""
        return len(self.node_names)

    @property
    def is_array_task(self) -> bool:
        """Whether the job is one element of an array."""
        return bool(self.array_job_id and self.array_task_id)

    @property
    def address(self) -> str:
        """What Slurm commands are given: the job id, or `<array>_<task>`.

        Never the plain id of an array task: one task's own id is the array's, and a requeue by
        it restarts the whole array (22.05.8).
        """
        return f"{self.array_job_id}_{self.array_task_id}" if self.is_array_task else self.job_id

    def run_id(self, pool: bool = False) -> str:
        """The id of the run this job trains, the same after every requeue; safe as a file name.

        In a pool all elements of the array are one run; else each element is its own.
        """
        job = self.array_job_id if pool and self.is_array_task else self.address
        return _FOREIGN.sub("-", f"{self.cluster}-{job}").lstrip(".-")


def grace_s(environment: Mapping[str, str]) -> float | None:
    """The partition's GraceTime as the batch shell has read it; anything but a number is no answer."""
    text = environment.get("HPC_ELASTIC_GRACE_S", "")
    return float(text) if text.isascii() and text.isdecimal() and len(text) <= 9 else None


def _is_step(environment: Mapping[str, str]) -> bool:
    if environment.get("SLURM_STEP_ID", "").startswith("-"):
        return False
    return 0 <= _number(environment, "SLURM_STEP_ID", default=-1) < _FIRST_STEP_OF_SLURM


def _number(environment: Mapping[str, str], name: str, *, default: int) -> int:
    text = environment.get(name, "").strip()
    if not text:
        return default
    if not (text.isascii() and text.isdecimal() and len(text) <= 18):
        raise BadEnvironment(
            f"{name}={text}: expected a whole number; unset it, or start with sbatch or srun"
        )
    return int(text)


def _node_names(environment: Mapping[str, str], is_step: bool) -> tuple[str, ...]:
    names = ("SLURM_STEP_NODELIST",) if is_step else ()
    for name in (*names, "SLURM_JOB_NODELIST", "SLURM_NODELIST"):
        if text := environment.get(name, ""):
            found = nodelist.expand(text)
            return tuple(dict.fromkeys(found))
    raise BadEnvironment(
        "SLURM_JOB_ID is set but SLURM_JOB_NODELIST is not: not a complete Slurm environment; "
        "start with sbatch or srun, or unset SLURM_JOB_ID to run without Slurm"
    )


def _index_of(node_name: str, node_names: tuple[str, ...], environment: Mapping[str, str]) -> int:
    if node_name in node_names:
        return node_names.index(node_name)
    if node_name:
        raise BadEnvironment(
            f"SLURMD_NODENAME={node_name} is not among the job's nodes {','.join(node_names)}; "
            "unset what was inherited from another job"
        )
    index = _number(environment, "SLURM_NODEID", default=-1)
    return index if index < len(node_names) else -1


def _tasks_per_node(environment: Mapping[str, str], is_step: bool) -> int:
    name = "SLURM_STEP_TASKS_PER_NODE" if is_step else "SLURM_NTASKS_PER_NODE"
    value = environment.get(name, "").strip()
    most = max(_counts(name, value), default=1)
    if most > 1:
        raise TooManyTasks(variable=name, value=value)
    return most


def _counts(name: str, value: str) -> list[int]:
    """The distinct counts of a list such as `2(x3),1`."""
    counts: list[int] = []
    for one in value.split(",") if value else ():
        match = _COUNTS.fullmatch(one.strip())
        if match is None:
            raise BadEnvironment(f"{name}={value}: expected counts such as 1(x4); start with sbatch or srun")
        counts.append(int(match.group(1)))
    return counts


def _count_of_gpus(value: str) -> int:
    """`4`, `a100:4` or `a100:2,v100:2` as a sum; 0 for what cannot be read: it is a hint only."""
    matches = [_TYPED_COUNT.fullmatch(one.strip()) for one in value.split(",")]
    return sum(int(match.group(1)) for match in matches if match)
