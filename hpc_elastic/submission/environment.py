"""The environment that a submission hands on: ours added, an enclosing job's taken away."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import hpc_elastic

# A submission from inside a job must not inherit that job's binding, memory and step variables:
# sbatch forwards them (seen on 22.05.8: pinning to the parent's cores, or no launch at all).
_OF_A_JOB: Final = ("SLURM_", "SBATCH_", "SRUN_", "PMI_", "PMI2_", "PMIX_")
_KEPT_OF_A_JOB: Final = frozenset({"SLURM_CONF", "SLURM_JWT", "SLURM_SACK_SOCKET", "SLURM_TIME_FORMAT"})

_OURS: Final = "HPC_ELASTIC_"
_KEPT_OF_OURS: Final = frozenset(
    f"{_OURS}{name}" for name in ("HOME", "PYTHON", "LAUNCH_PREFIX", "ALLOW_LOOPBACK", "SANDBOX")
)

_PREFIX: Final = f"{_OURS}LAUNCH_PREFIX"
_ETCD: Final = f"{_OURS}ETCD"  # where an etcd is, and how to log in


def inherited(environment: Mapping[str, str]) -> frozenset[str]:
    """The names that describe the job or the worker this process is in, not the one to start."""
    ours = {name for name in environment if name.startswith(_OURS) and not _is_kept(name)}
    if "SLURM_JOB_ID" not in environment:
        return frozenset(ours)
    slurms = {name for name in environment if name.startswith(_OF_A_JOB) and name not in _KEPT_OF_A_JOB}
    return frozenset(ours | slurms)


def _is_kept(name: str) -> bool:
    return name in _KEPT_OF_OURS or name.startswith(_ETCD)


def launcher(variables: Mapping[str, str]) -> tuple[str, ...]:
    """The words of `ours` that start Python, as the batch script splits them."""
    return (*variables.get(_PREFIX, "").split(), variables["HPC_ELASTIC_PYTHON"])


def cleaned(environment: Mapping[str, str]) -> dict[str, str]:
    """`environment` without what is inherited."""
    gone = inherited(environment)
    return {name: value for name, value in environment.items() if name not in gone}


def ours(environment: Mapping[str, str], python: str | None) -> dict[str, str]:
    """What the agents need: the interpreter, what starts it, and where the package lies if not installed."""
    variables = {"HPC_ELASTIC_PYTHON": python or sys.executable}
    if environment.get(_PREFIX):
        variables[_PREFIX] = environment[_PREFIX]
    root = checkout()
    if root is not None:
        before = environment.get("PYTHONPATH", "")
        parts = [str(root), *(part for part in before.split(os.pathsep) if part and part != str(root))]
        variables["PYTHONPATH"] = os.pathsep.join(parts)
    return variables


def checkout() -> Path | None:
    """The folder this package is imported from, or None where it is installed for its interpreter."""
    root = Path(hpc_elastic.__file__).resolve().parents[1]
    installed = {Path(sysconfig.get_path(kind)).resolve() for kind in ("purelib", "platlib")}
    return None if root in installed else root


def home(environment: Mapping[str, str]) -> Path:
    """Where run directories lie that were given no place of their own."""
    return Path(environment.get("HPC_ELASTIC_HOME") or "hpc_elastic_runs").expanduser().absolute()
