"""The Python that the agents run in, and what it has."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import metadata
from typing import Final

from hpc_elastic import __version__
from hpc_elastic.doctor.finding import Finding, Level

_NEEDS: Final = {
    "psutil": "sweeping up after workers",
    "filelock": "locks of the file store",
    "submitit": "hpc_elastic.submit on Slurm",
    "python-etcd": "etcd",
}


def look() -> Iterator[Finding]:
    """This interpreter and its packages; nothing is imported for it."""
    version = ".".join(map(str, sys.version_info[:3]))
    fact = f"Python {version}, hpc_elastic {__version__}, {sys.executable}"
    yield Finding(
        "Python", Level.FINE, fact, "what agents and workers run in, unless HPC_ELASTIC_PYTHON says else"
    )
    missing = [name for name in _NEEDS if not _has(name)]
    if missing:
        uses = ", ".join(f"{name} ({_NEEDS[name]})" for name in missing)
        yield Finding(
            "Python",
            Level.PROBLEM,
            f"not installed: {uses}",
            "what needs them fails",
            f"pip install {' '.join(missing)}",
        )


def _has(name: str) -> bool:
    try:
        metadata.version(name)
    except metadata.PackageNotFoundError:
        return False
    return True
