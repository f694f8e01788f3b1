"""Elastic distributed training on Slurm that survives preemption.

The public names load on first use; importing the package does nothing else.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hpc_elastic.submission.job import Job as Job
    from hpc_elastic.submission.submit import submit as submit

__version__ = "0.1.0"

_HOMES = {
    "Job": "hpc_elastic.submission.job",
    "submit": "hpc_elastic.submission.submit",
}

__all__ = ["Job", "__version__", "submit"]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return sorted(__all__)
