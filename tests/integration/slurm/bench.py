"""A submit directory on a sandbox, and what a test wants to know of a job submitted from it."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from hpc_elastic.status import snapshot
from hpc_elastic.testing.sandbox.options import SandboxOptions
from hpc_elastic.testing.sandbox.sandbox import Sandbox
from tests.waiting import wait_until

ROOT = Path(__file__).resolve().parents[3]
TEMPLATE = ROOT / "sbatch" / "elastic.sh"
ENDED = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "PREEMPTED")


def changes(states: Sequence[str]) -> list[str]:
    """What somebody has seen one after the other, but for the moments in which nobody could say."""
    known = [state for state in states if state != "UNKNOWN"]
    return [state for before, state in zip(["", *known], known, strict=False) if state != before]


@contextmanager
def a_sandbox(options: SandboxOptions | None = None) -> Iterator[Sandbox]:
    """A private Slurm in a directory that its ordinary user can enter, which pytest's own is not."""
    with tempfile.TemporaryDirectory(prefix="sbx-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        sandbox = Sandbox.up(Path(folder) / "slurm", options)
        try:
            yield sandbox
        finally:
            sandbox.down()


@dataclass
class Bench:
    """A submit directory of the sandbox's ordinary user. `package` is what agents import."""

    sandbox: Sandbox
    folder: Path
    package: Path = ROOT

    @property
    def variables(self) -> dict[str, str]:
        return {"HPC_ELASTIC_PYTHON": sys.executable, "PYTHONPATH": str(self.package)}

    def submit(self, *options: str, words: tuple[str, ...], env: Mapping[str, str] | None = None) -> str:
        given = self.variables | dict(env or {})
        return self.sandbox.sbatch(*options, TEMPLATE, *words, cwd=self.folder, env=given)

    def output(self, job: str) -> str:
        path = self.folder / f"slurm-{job}.out"
        return path.read_text() if path.exists() else ""

    def run_dir(self, job: str) -> Path:
        return self.folder / "hpc_elastic_runs" / f"{self.sandbox.cluster}-{job}"

    def run(self, job: str) -> snapshot.RunSnapshot:
        return snapshot.read(self.run_dir(job))

    def wait_for_restart(self, job: str, number: int = 1, timeout_s: float = 180.0) -> None:
        """Until Slurm has taken the job back: it is PENDING, or will be when its last process is gone.

        To wait for PENDING itself would miss it where the job is started again soon.
        """
        wait_until(
            lambda: int(self.sandbox.job(job)["Restarts"]) >= number, timeout_s, f"job {job} is requeued"
        )

    def end_of(self, job: str, timeout_s: float = 180.0) -> tuple[str, str, list[str]]:
        """The state and the exit status of a job that has ended, and the lines of its output."""
        record = self.sandbox.wait_for_state(job, ENDED, timeout_s=timeout_s)
        return record["JobState"], record["ExitCode"], self.output(job).splitlines()
