"""What the submitter tells the supervisor of a local cluster, and what that says of itself."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Final

from hpc_elastic.submission.files import SubmissionFiles
from hpc_elastic.workers import payload, tree

SCHEMA: Final = 1
RUNNING: Final = "RUNNING"


@dataclass(frozen=True)
class Plan:
    """`submission/plan.json`: what each agent is started with, and how many there are."""

    job_id: str
    nodes: int
    command: tuple[str, ...]
    setup: tuple[str, ...]
    requeue: bool

    def write(self, files: SubmissionFiles) -> None:
        """Put it where the supervisor looks for it."""
        payload.write(_plan(files), json.dumps({"schema": SCHEMA, **asdict(self)}, indent=1).encode())

    @classmethod
    def read(cls, files: SubmissionFiles) -> Plan:
        """The plan in a run directory."""
        body = json.loads(_plan(files).read_bytes())
        return cls(
            job_id=body["job_id"],
            nodes=int(body["nodes"]),
            command=tuple(body["command"]),
            setup=tuple(body["setup"]),
            requeue=bool(body["requeue"]),
        )


@dataclass(frozen=True)
class SupervisorState:
    """`submission/local.json`: the supervisor, replaced as a whole at every change.

    `state` is RUNNING or a final state of a job, `why` explains it. `pid` and `start_ticks` together
    name one process of `host`.
    """

    host: str
    pid: int
    start_ticks: int
    state: str
    why: str
    restart_count: int
    agents: tuple[int, ...]

    def write(self, files: SubmissionFiles) -> None:
        """Replace what the supervisor says."""
        payload.write(files.supervisor, json.dumps({"schema": SCHEMA, **asdict(self)}, indent=1).encode())

    @classmethod
    def read(cls, files: SubmissionFiles) -> SupervisorState | None:
        """What it said last, or None where there is no supervisor yet."""
        try:
            body = json.loads(files.supervisor.read_bytes())
            values = {field.name: body[field.name] for field in fields(cls)}
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return None
        return cls(**{**values, "agents": tuple(values["agents"])})

    def is_alive(self) -> bool:
        """Whether that very process runs; asked on its host only."""
        seen = tree.look_at(self.pid)
        return seen is not None and seen.is_alive and seen.start_ticks == self.start_ticks


def _plan(files: SubmissionFiles) -> Path:
    return files.folder / "plan.json"
