"""Where a submission keeps its files in the run directory, and what its job file says."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Final

from hpc_elastic.agent.rundir import RunDirectory
from hpc_elastic.errors import UsageError
from hpc_elastic.workers import calling, payload

SCHEMA: Final = 1


@dataclass(frozen=True)
class SubmissionFiles:
    """The paths below one run directory that belong to the submission."""

    run_dir: Path

    @property
    def folder(self) -> Path:
        """What the submitting side and its supervisor write."""
        return self.run_dir / "submission"

    @property
    def job(self) -> Path:
        """Which job runs this run: what `Job.attach` reads."""
        return self.folder / "job.json"

    @property
    def supervisor(self) -> Path:
        """What the supervisor of a local cluster says of itself."""
        return self.folder / "local.json"

    @property
    def guests(self) -> Path:
        """The folder with an empty file for each job that was submitted to join the run."""
        return self.folder / "guests"

    @property
    def payload(self) -> Path:
        """The submitted function."""
        return self.run_dir / "payload.pkl"

    @property
    def results(self) -> Path:
        """The folder of what the function returned."""
        return self.run_dir / "results"

    def result(self, round_number: int, rank: int) -> Path:
        """What the function returned on one rank of one round."""
        return calling.result_path(self.results, round_number, rank)

    def exception(self, attempt: int, round_number: int, rank: int) -> Path:
        """The exception itself, beside the error file of a rank."""
        errors = RunDirectory(self.run_dir).errors(attempt, round_number)
        return calling.exception_path(errors / f"{rank}.json")


@dataclass(frozen=True)
class JobFile:
    """`submission/job.json`. Attempts up to `after_attempt` belong to an earlier job of the same run.

    Of a pool `job_id` is the array's.
    """

    cluster: str
    job_id: str
    run_id: str
    name: str
    calls_function: bool
    requeue: bool
    after_attempt: int
    submitted_at: str
    is_pool: bool = False

    def write(self, path: Path) -> None:
        """Replace the job file."""
        payload.write(path, json.dumps({"schema": SCHEMA, **asdict(self)}, indent=1).encode())

    @classmethod
    def read(cls, path: Path) -> JobFile:
        """The job file; raises UsageError where there is none or it is not one."""
        try:
            body = json.loads(path.read_bytes())
            known = {"is_pool": False} | body
            return cls(**{field.name: known[field.name] for field in fields(cls)})
        except FileNotFoundError:
            raise UsageError(
                f"{path.parent.parent} holds no submitted job: there is no {path.name}"
            ) from None
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as bad:
            raise UsageError(f"{path} cannot be read as a job ({type(bad).__name__}: {bad})") from bad
