"""What the agent's machine is told: frozen values, one type per kind of event."""

from __future__ import annotations

import signal
from enum import Enum
from typing import Final

from hpc_elastic.agent.notices import Bettered, Heard
from hpc_elastic.rendezvous.record import Cause, Reason
from hpc_elastic.values import dataclass

# A worker that ends by one of these may have died of a signal that was meant for the whole step.
_STEP_SIGNALS: Final = (
    signal.SIGHUP,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGTERM,
    signal.SIGUSR1,
    signal.SIGUSR2,
)
_STEP_SIGNAL_STATUS: Final = frozenset(
    status for signum in _STEP_SIGNALS for status in (-int(signum), 128 + int(signum))
)


class How(str, Enum):
    """What the end of a worker means."""

    DONE = "done"
    SAVED = "saved"
    FAILED = "failed"


@dataclass(frozen=True)
class WorkerEnd:
    """How one worker ended. `returncode` is as `subprocess` has it: negative for a signal.

    `progress` is the highest step it told us of, `saved_step` the last one it saved; -1 for none.
    Without a context (`is_plain`) an exit with 0 means done or saved, by what came before it. `cause` is
    what a failure is in the record: another one than WORKER_FAILED where the agent ended a worker.
    """

    local_rank: int
    global_rank: int
    returncode: int
    how: How
    message: str = ""
    progress: int = -1
    saved_step: int = -1
    is_plain: bool = False
    cause: Cause = Cause.WORKER_FAILED

    @property
    def may_be_of_a_step_signal(self) -> bool:
        """Whether a signal to the whole job step could have ended it."""
        return self.returncode in _STEP_SIGNAL_STATUS


def judge(returncode: int, *, told: bool, attached: bool, leaving: bool) -> How:
    """What an exit status means for a worker that was `told` to stop or not.

    A worker with a context (`attached`) has saved only if it said so (`leaving`); without one,
    exit 0 after our signal counts as saved, before it as done. Once it has said so a signal to the step
    changes nothing: Slurm sends TERM more than once, and an interpreter that ends no longer holds it.
    """
    if leaving and attached and returncode in _STEP_SIGNAL_STATUS:
        return How.SAVED
    if returncode != 0:
        return How.FAILED
    saved = leaving if attached else told
    return How.SAVED if saved else How.DONE


@dataclass(frozen=True)
class RoundStarted:
    """A round of which this node is a member has started; its workers may be started."""

    number: int


@dataclass(frozen=True)
class RoundMissed:
    """A round started with this node, but is `ended` or being drained before we could begin."""

    number: int
    ended: bool
    leaving: bool


@dataclass(frozen=True)
class DrainSeen:
    """The round is asked to stop at an agreed step; `leaving` if this node is to go afterwards."""

    reason: Reason
    deadline_s: float
    leaving: bool


@dataclass(frozen=True)
class NoticeSeen:
    """A notice that concerns this node stands in the record, or was bettered.

    `ask` if this node's word became the record, so that it has to ask the scheduler.
    """

    reason: Reason
    deadline_s: float
    ask: bool


@dataclass(frozen=True)
class StopKnown:
    """The step at which every rank of the round stops."""

    step: int


@dataclass(frozen=True)
class RoundEnded:
    """Somebody saw a cause to end the round of this node."""

    cause: Cause
    message: str


@dataclass(frozen=True)
class RunClosed:
    """The run, or this attempt of it, is over.

    `elsewhere` is the failed rank and its node in words, where another agent tells the whole story.
    """

    succeeded: bool
    exit_code: int
    message: str
    elsewhere: str = ""


@dataclass(frozen=True)
class RecordFailed:
    """This node can take no further part: the membership's error."""

    exit_code: int
    message: str


@dataclass(frozen=True)
class SignalHeard:
    """A signal to this agent."""

    heard: Heard


@dataclass(frozen=True)
class Insisted:
    """A person at a terminal pressed Ctrl-C again: no more waiting."""


@dataclass(frozen=True)
class SourceAnswered:
    """What the scheduler said about our notice."""

    bettered: Bettered | None


@dataclass(frozen=True)
class StartFailed:
    """The workers could not be started."""

    message: str


@dataclass(frozen=True)
class WorkerFailed:
    """One worker of this node ended badly while others may still run."""

    end: WorkerEnd


@dataclass(frozen=True)
class WorkersGone:
    """No worker of this node runs any more."""

    ends: tuple[WorkerEnd, ...]


@dataclass(frozen=True)
class WorkersStuck:
    """Something of a worker is still there although it was killed."""

    message: str


@dataclass(frozen=True)
class HealthFailed:
    """The health command says that this node is not to take part."""

    message: str


@dataclass(frozen=True)
class StepDue:
    """Time to report the highest step of our ranks."""


@dataclass(frozen=True)
class DeadlineOver:
    """Time to stop workers that have not saved."""


@dataclass(frozen=True)
class DoubtOver:
    """No notice came that would explain the end of a worker."""


@dataclass(frozen=True)
class NoticeUnanswered:
    """A notice was heard, but no drain of the round appeared in the record."""


Timed = StepDue | DeadlineOver | DoubtOver | NoticeUnanswered
Input = (
    RoundStarted
    | RoundMissed
    | DrainSeen
    | NoticeSeen
    | StopKnown
    | RoundEnded
    | RunClosed
    | RecordFailed
    | SignalHeard
    | Insisted
    | SourceAnswered
    | StartFailed
    | WorkerFailed
    | WorkersGone
    | WorkersStuck
    | HealthFailed
    | Timed
)
