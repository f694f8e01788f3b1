"""Records of how a run goes on after an attempt, where Slurm does not start its job again."""

from __future__ import annotations

from typing import ClassVar

from hpc_elastic.values import dataclass


@dataclass(frozen=True)
class Continued:
    """`attempts/<k>.continuation.<of_job>.<i>`: `job` goes on with the run in the place of `of_job`.

    That had been restarted `i` times. `attempt` is 0 where no agent of its last start had opened one.
    """

    TYPE: ClassVar[str] = "continuation"
    attempt: int
    of_job: str
    restart_count: int
    job: str
    created_at: str
    writer: str


@dataclass(frozen=True)
class StaysAway:
    """`attempts/<k>.stays_away`: why nothing comes after it. `is_cancelled`: somebody wants it so."""

    TYPE: ClassVar[str] = "stays away"
    attempt: int
    why: str
    is_cancelled: bool
    created_at: str
    writer: str
