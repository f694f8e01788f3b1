"""Which programs a sandbox needs, and the Debian packages that bring them."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import Final

from hpc_elastic.errors import SandboxError

# Debian puts daemons where an ordinary user's PATH does not look.
SEARCH_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

SLURM_PROGRAMS: Final = {
    "munged": "munge",
    "slurmctld": "slurmctld",
    "slurmd": "slurmd",
    "sinfo": "slurm-client",
    "scontrol": "slurm-client",
    "sbatch": "slurm-client",
    "useradd": "passwd",
}
ACCOUNTING_PROGRAMS: Final = {
    "slurmdbd": "slurmdbd slurm-wlm-mysql-plugin",
    "mariadbd": "mariadb-server",
    "mariadb-install-db": "mariadb-server",
}

Find = Callable[[str], "str | None"]


def find_program(name: str) -> str | None:
    """The absolute path of a program in the system's directories, or None."""
    return shutil.which(name, path=SEARCH_PATH)


def missing_programs(*, accounting: bool, find: Find = find_program) -> dict[str, str]:
    """Programs that are not installed, each with its Debian package."""
    needed = SLURM_PROGRAMS | (ACCOUNTING_PROGRAMS if accounting else {})
    return {name: package for name, package in needed.items() if find(name) is None}


def describe_missing(missing: dict[str, str]) -> str:
    """One sentence: what is missing and the command that installs it."""
    packages = " ".join(sorted(set(missing.values())))
    return (
        f"{', '.join(missing)} not found in {SEARCH_PATH}; "
        f"install the Debian packages: apt-get install --no-install-recommends {packages}"
    )


def program(name: str) -> str:
    """The absolute path of a program; raises `SandboxError` naming its package."""
    path = find_program(name)
    if path is None:
        package = (SLURM_PROGRAMS | ACCOUNTING_PROGRAMS).get(name, name)
        raise SandboxError(describe_missing({name: package}))
    return path
