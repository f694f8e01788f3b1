"""How many workers a node gets: from what this process may use, not from what the machine has."""

from __future__ import annotations

import os
from collections.abc import Mapping

from hpc_elastic import settings
from hpc_elastic.agent import cgroups, devices
from hpc_elastic.errors import UsageError


def cpus(environment: Mapping[str, str]) -> int:
    """The CPUs that this process is given, at least 1.

    The least of its affinity, the CPU time of its control groups in whole CPUs, and what Slurm says that
    the job has here: a site without task affinity shows a job of 2 CPUs all of the machine's.
    """
    limits = [len(os.sched_getaffinity(0))]
    quota = cgroups.cpu_quota()
    if quota is not None:
        limits.append(int(quota))
    given = environment.get("SLURM_CPUS_ON_NODE", "")
    if given.isascii() and given.isdecimal():
        limits.append(int(given))
    return max(1, min(limits))


def worker_count(asked: str, environment: Mapping[str, str]) -> int:
    """The number of workers for `--nproc-per-node` as given.

    Raises `UsageError` where it is neither a number from 1 on nor auto, gpu, xpu or cpu, or where gpu or
    xpu is asked for and none is visible.
    """
    if asked == "cpu":
        return cpus(environment)
    if asked == "auto":
        return devices.accelerators(environment) or 1
    if asked in ("gpu", "xpu"):
        seen = (devices.accelerators if asked == "gpu" else devices.xpus)(environment)
        if seen == 0:
            raise UsageError(
                f"--nproc-per-node {asked}: no accelerator is visible to this process; ask Slurm for some "
                "(--gpus-per-node), or give a number"
            )
        return seen
    if not asked.isascii() or not asked.isdecimal() or not 0 < int(asked[:6]) <= settings.MOST_WORKERS:
        raise UsageError(
            f"--nproc-per-node {asked}: expected a number from 1 to {settings.MOST_WORKERS}, or auto, gpu, "
            "xpu or cpu"
        )
    return int(asked)
