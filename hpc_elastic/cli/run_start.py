"""Where `hpc-elastic run` stands: which run, which start of it, which node; from options and environment."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hpc_elastic.agent import addresses, resources
from hpc_elastic.cli.run_options import RunOptions
from hpc_elastic.errors import BadEnvironment, UsageError
from hpc_elastic.rendezvous.record import GUESTS
from hpc_elastic.rendezvous.standing import JobStart, Seat, Settings
from hpc_elastic.values import dataclass, replace

if TYPE_CHECKING:
    from hpc_elastic.slurm.environment import JobEnvironment

_DEFAULT_HOME: Final = "hpc_elastic_runs"
_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_FOREIGN: Final = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True)
class Location:
    """Which run, and where it is kept."""

    run_id: str
    run_dir: Path


@dataclass(frozen=True)
class Start:
    """Everything about this start of this node that the options and the environment say.

    `job` is the Slurm job whose signals are to be explained, if there is one.
    """

    location: Location
    start: JobStart
    seat: Seat
    settings: Settings
    job: JobEnvironment | None


def locate(options: RunOptions, env: Mapping[str, str]) -> Location:
    """The run and its directory. Raises `UsageError` where a name cannot be a run id."""
    return _locate(options, env, _job(options, env))


def resolve(options: RunOptions, env: Mapping[str, str]) -> Start:
    """The whole start. Raises `UsageError`, with nothing created."""
    job = _job(options, env)
    location = _locate(options, env, job)
    low, high = _nodes(options, env, job)
    slots = resources.worker_count(options.nproc_per_node, env)
    allow_loopback = env.get("HPC_ELASTIC_ALLOW_LOOPBACK", "") == "1"
    seat = _seat(options, env, job, slots=slots, alone=high == 1, allow_loopback=allow_loopback)
    settings = Settings(
        min_nodes=low,
        max_nodes=high,
        expected_nodes=min(high, _expected(options, env, job, high)),
        pool=is_shared(options),
        nodes_are_given=not is_shared(options) and (job is not None or "HPC_ELASTIC_NODE_COUNT" in env),
        max_restarts=options.max_restarts,
        restart_backoff_s=options.restart_backoff_s,
        same_failures=options.same_failures,
        node_failures=options.node_failures,
        heartbeat_s=options.conf["heartbeat"],
        join_timeout_s=options.conf["join_timeout"],
        last_call_s=options.conf["last_call_timeout"],
        join_window_s=options.conf["join_window"],
        store_lost_s=options.conf["store_lost"],
        shutdown_timeout_s=options.shutdown_timeout_s,
        allow_loopback=allow_loopback,
    )
    start = replace(job_start(env, job), share=share(options, env, job))
    return Start(location, start, seat, settings, job)


def is_shared(options: RunOptions) -> bool:
    """Whether this job shares the run with others: the elements of a pool, or one that has joined."""
    return options.is_pool or options.is_guest


def share(options: RunOptions, env: Mapping[str, str], job: JobEnvironment | None) -> str:
    """What the job belongs to: the array of the pool, or the guests of a run; empty where it has its own."""
    if options.is_guest:
        return GUESTS
    if not options.is_pool:
        return ""
    if options.pool_id:
        return options.pool_id
    if job is None:
        return f"local/{env.get('HPC_ELASTIC_JOB_ID', '')}"
    return f"{job.cluster}/{job.array_job_id if job.is_array_task else job.job_id}"


def _job(options: RunOptions, env: Mapping[str, str]) -> JobEnvironment | None:
    """The Slurm job, unless this node is to stand alone or is told that it is a simulated one."""
    if options.is_standalone or "HPC_ELASTIC_NODE_NAME" in env or "SLURM_JOB_ID" not in env:
        return None
    from hpc_elastic.slurm.environment import JobEnvironment

    return JobEnvironment.parse(env)


def _locate(options: RunOptions, env: Mapping[str, str], job: JobEnvironment | None) -> Location:
    run_id = _run_id(options, env, job)
    try:
        Path.cwd()
    except FileNotFoundError:
        raise UsageError("the current directory is not there any more; change to one that is") from None
    if options.run_dir is not None:
        if not options.run_dir:
            raise UsageError("--run-dir is empty; give a directory that all nodes see")
        return Location(run_id, Path(options.run_dir).absolute())
    submitted_in = env.get("SLURM_SUBMIT_DIR", "") if job is not None else ""
    home = env.get("HPC_ELASTIC_HOME", "") or Path(submitted_in, _DEFAULT_HOME)
    return Location(run_id, Path(home).absolute() / run_id)


def _run_id(options: RunOptions, env: Mapping[str, str], job: JobEnvironment | None) -> str:
    if options.rdzv_id is not None:
        if not _ID.fullmatch(options.rdzv_id):
            raise UsageError(
                f"--rdzv-id {options.rdzv_id!r} cannot name a directory; "
                "use letters, digits, '.', '_' and '-'"
            )
        return options.rdzv_id
    if job is not None:
        return job.run_id(options.is_pool)
    named = env.get("HPC_ELASTIC_JOB_ID", "") or Path(options.run_dir or "").name
    if named:
        return _FOREIGN.sub("-", named).lstrip(".-_") or "run"
    return f"local-{datetime.now().strftime('%Y%m%d-%H%M%S')}-{os.urandom(3).hex()}"  # noqa: DTZ005 (a name)


def _nodes(options: RunOptions, env: Mapping[str, str], job: JobEnvironment | None) -> tuple[int, int]:
    low, high = options.nnodes or ((job.nnodes, job.nnodes) if job is not None else (1, 1))
    if options.is_standalone and high > 1:
        raise UsageError(
            f"--standalone with --nnodes {low}:{high}: one node stands alone; drop one of the two"
        )
    if job is None:
        if high > 1 and not env.get("HPC_ELASTIC_JOB_ID", ""):
            raise UsageError(
                f"--nnodes {low}:{high} outside a Slurm job: set HPC_ELASTIC_JOB_ID to a word that is the "
                "same on all nodes and new for each start, and --run-dir to a directory that all see"
            )
        return low, high
    refuse_too_few(options, job)
    if high > 1 and not job.is_step:
        raise UsageError(
            "this process is not in a job step, so it is the only agent of a job with "
            f"{job.nnodes} nodes; start one on each: srun --ntasks-per-node=1 hpc-elastic run ..."
        )
    return low, high


def refuse_too_few(options: RunOptions, job: JobEnvironment) -> None:
    """Raise `UsageError` where the job's nodes can never be the minimum that was asked for."""
    low, high = options.nnodes or (job.nnodes, job.nnodes)
    if low > job.nnodes and not is_shared(options):
        raise UsageError(
            f"--nnodes {low}:{high}: this job has {job.nnodes} nodes; "
            f"submit with --nodes={low}, or lower the minimum"
        )


def _expected(options: RunOptions, env: Mapping[str, str], job: JobEnvironment | None, high: int) -> int:
    if is_shared(options):
        return high
    return job.nnodes if job is not None else _number(env, "HPC_ELASTIC_NODE_COUNT", default=high)


def job_start(env: Mapping[str, str], job: JobEnvironment | None) -> JobStart:
    """Which start of the run this is."""
    if job is not None:
        return JobStart(job.cluster, job.job_id, job.array_task_id, job.restart_count, job.node_names)
    # Without a scheduler every start by hand is a start of its own, unless all nodes are told one id.
    given = env.get("HPC_ELASTIC_JOB_ID", "")
    if given:
        return JobStart("local", given, "", _number(env, "HPC_ELASTIC_RESTART_COUNT", default=0))
    return JobStart("local", os.urandom(6).hex())


def _seat(
    options: RunOptions,
    env: Mapping[str, str],
    job: JobEnvironment | None,
    *,
    slots: int,
    alone: bool,
    allow_loopback: bool,
) -> Seat:
    host = socket.gethostname()
    simulated = env.get("HPC_ELASTIC_NODE_NAME", "")
    name = (job.node_name if job is not None else simulated) or host.partition(".")[0] or "localhost"
    order = options.node_rank
    if order is None:
        order = job.node_index if job is not None else _number(env, "HPC_ELASTIC_NODE_INDEX", default=0)
    address = addresses.choose(
        given=options.local_addr,
        names=tuple(dict.fromkeys((name, host))),
        alone=alone,
        allow_loopback=allow_loopback,
    )
    return Seat(name, max(order, 0), host, address, slots, options.role)


def _number(env: Mapping[str, str], name: str, *, default: int) -> int:
    text = env.get(name, "")
    if not text:
        return default
    if not text.isascii() or not text.isdecimal() or len(text) > 9:
        raise BadEnvironment(f"{name}={text}: expected a whole number; set or unset it")
    return int(text)
