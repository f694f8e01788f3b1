"""Where the files of one sandbox are."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

# Only root can bring a sandbox up, and the ordinary user must be able to enter its directory:
# root's own ~/.cache is closed to everybody else, so root's cache is /var/cache here.
DEFAULT_DIRECTORY: Final = Path("/var/cache/hpc_elastic/sandbox")

# sun_path of unix(7) is 108 bytes with its end mark; the longest name below is `slurmd`'s
# `spool/n64/n64_1234567.4294967291`.
LONGEST_DIRECTORY: Final = 70


@dataclass(frozen=True)
class Layout:
    """The paths below one sandbox directory; `down` removes `ENTRIES` and the lock, nothing else."""

    directory: Path

    ENTRIES = (
        "slurm.conf",
        "slurmdbd.conf",
        "task_prolog",
        "munge",
        "log",
        "run",
        "state",
        "spool",
        "home",
        "work",
        "mariadb",
        "sandbox.json",
        "sandbox.json.new",
    )

    @property
    def slurm_conf(self) -> Path:
        return self.directory / "slurm.conf"

    @property
    def slurmdbd_conf(self) -> Path:
        return self.directory / "slurmdbd.conf"

    @property
    def task_prolog(self) -> Path:
        return self.directory / "task_prolog"

    @property
    def munge(self) -> Path:
        return self.directory / "munge"

    @property
    def munge_socket(self) -> Path:
        return self.munge / "socket"

    @property
    def log(self) -> Path:
        return self.directory / "log"

    @property
    def run(self) -> Path:
        return self.directory / "run"

    @property
    def controller_state(self) -> Path:
        return self.directory / "state"

    @property
    def spool(self) -> Path:
        return self.directory / "spool"

    @property
    def home(self) -> Path:
        return self.directory / "home"

    @property
    def work(self) -> Path:
        return self.directory / "work"

    @property
    def mariadb(self) -> Path:
        return self.directory / "mariadb"

    @property
    def mariadb_socket(self) -> Path:
        return self.mariadb / "socket"

    @property
    def state_file(self) -> Path:
        return self.directory / "sandbox.json"

    @property
    def lock(self) -> Path:
        return self.directory / "sandbox.lock"

    def output_of(self, daemon: str) -> Path:
        """What a daemon wrote to its standard output and error."""
        return self.log / f"{daemon}.out"

    def slurmd_log(self, node: str) -> Path:
        return self.log / f"slurmd-{node}.log"
