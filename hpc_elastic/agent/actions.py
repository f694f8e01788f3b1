"""What the agent's machine orders: frozen values, carried out by the loop in `local.py`."""

from __future__ import annotations

from hpc_elastic.agent.inputs import WorkerEnd
from hpc_elastic.agent.notices import Bettered, Heard
from hpc_elastic.rendezvous.record import Cause, Outcome, Reason
from hpc_elastic.values import dataclass


@dataclass(frozen=True)
class Join:
    """Take part in the next round."""


@dataclass(frozen=True)
class StartWorkers:
    """Start the workers of the round that has started."""


@dataclass(frozen=True)
class WarnWorkers:
    """Raise the flag, write the notice file, and end plain workers with SIGTERM, once each."""

    reason: Reason
    deadline_s: float


@dataclass(frozen=True)
class ReportStep:
    """Tell the other nodes the highest step of our ranks."""


@dataclass(frozen=True)
class PassStopStep:
    """Tell our ranks where to stop."""

    step: int


@dataclass(frozen=True)
class StopWorkers:
    """Ask all workers to end, and kill at `kill_at_s` what is left."""

    kill_at_s: float


@dataclass(frozen=True)
class EndRound:
    """Put a cause for the end of the round into the record."""

    cause: Cause
    message: str = ""
    worker: WorkerEnd | None = None


@dataclass(frozen=True)
class MarkDone:
    """Our workers of the round have all finished."""


@dataclass(frozen=True)
class Announce:
    """Put the notice into the record, for everybody whom it concerns."""

    heard: Heard


@dataclass(frozen=True)
class AskSource:
    """Ask the scheduler why, and how much time is left, in a thread of its own."""


@dataclass(frozen=True)
class BetterNotice:
    """Put the scheduler's answer into the record, to what we `heard`."""

    bettered: Bettered
    heard: Heard | None


@dataclass(frozen=True)
class Leave:
    """Say how our part ended, and end with `exit_code`; nothing follows.

    `names_log`: the log of our rank that failed last belongs to what is said.
    """

    outcome: Outcome
    exit_code: int
    message: str
    names_log: bool = False


Action = (
    Join
    | StartWorkers
    | WarnWorkers
    | ReportStep
    | PassStopStep
    | StopWorkers
    | EndRound
    | MarkDone
    | Announce
    | AskSource
    | BetterNotice
    | Leave
)
