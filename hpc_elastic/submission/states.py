"""What a job is doing, decided from what the record and the cluster say. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from hpc_elastic.rendezvous.record import Closed, Reason
from hpc_elastic.rendezvous.sequels import StaysAway
from hpc_elastic.status.snapshot import AttemptSnapshot, RunSnapshot


class JobState(str, Enum):
    """The states of a job; Slurm's words where Slurm has one."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    REQUEUED = "REQUEUED"  # waits for its next start
    UNKNOWN = "UNKNOWN"  # neither the record nor the cluster can say at the moment
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    PREEMPTED = "PREEMPTED"  # and not started again
    TIMEOUT = "TIMEOUT"  # over its time limit, and not started again

    @property
    def is_final(self) -> bool:
        """Whether it cannot change any more."""
        return self not in _OPEN


_OPEN: Final = frozenset({JobState.PENDING, JobState.RUNNING, JobState.REQUEUED, JobState.UNKNOWN})


class Sight(str, Enum):
    """What the cluster shows of a job."""

    WAITING = "waiting"
    ACTIVE = "active"  # runs, or its end is not over yet
    ENDED = "ended"
    GONE = "gone"  # the cluster does not know it (any more)
    UNSEEN = "unseen"  # the cluster could not be asked; never a verdict


@dataclass(frozen=True)
class Seen:
    """One look at the cluster. `word` is its own name for the state, `source` where it was seen.

    `is_settled` tells an end that has stood long enough, and a job gone for long enough, from one
    that a requeue, or another job in its place, may still turn round.
    """

    sight: Sight
    word: str = ""
    source: str = ""
    is_settled: bool = False
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.source}: {self.word}" + (f", {self.detail}" if self.detail else "")


@dataclass(frozen=True)
class Judgement:
    """A state and the sentence that explains it."""

    state: JobState
    why: str
    closed: Closed | None = None


_ENDS: Final = {
    "CANCELLED": JobState.CANCELLED,
    "TIMEOUT": JobState.TIMEOUT,
    "DEADLINE": JobState.TIMEOUT,
    "PREEMPTED": JobState.PREEMPTED,
}
_ENDS_BY_REASON: Final = {
    Reason.CANCELLED: JobState.CANCELLED,
    Reason.TIME_LIMIT: JobState.TIMEOUT,
    Reason.PREEMPTED: JobState.PREEMPTED,
    Reason.USER: JobState.PREEMPTED,
}


def judge(snapshot: RunSnapshot, after_attempt: int, seen: Seen) -> Judgement:
    """The state of a job: its record comes first, then the cluster.

    `after_attempt` is the last attempt of an earlier job of the same run. An end that the cluster
    shows is believed only once it has settled, or when somebody cancelled: a requeued job is
    shown as ended for a moment, and Slurm may requeue where the batch side could not.
    """
    closed = snapshot.closed
    if closed is not None and (closed.succeeded or closed.attempt > after_attempt):
        return _of_the_record(closed)
    begun = [one for one in snapshot.attempts if one.number > after_attempt]
    if seen.sight is Sight.ACTIVE:
        return Judgement(JobState.RUNNING, str(seen))
    if seen.sight is Sight.WAITING:
        state = JobState.REQUEUED if begun else JobState.PENDING
        return Judgement(state, str(seen))
    if seen.sight is Sight.ENDED and (seen.is_settled or _ENDS.get(seen.word) is JobState.CANCELLED):
        return _of_the_cluster(snapshot, bool(begun), seen)
    if seen.sight is Sight.GONE and seen.is_settled:
        return _of_the_cluster(snapshot, bool(begun), seen)
    return Judgement(JobState.UNKNOWN, str(seen))


def _of_the_record(closed: Closed) -> Judgement:
    if closed.succeeded:
        return Judgement(JobState.COMPLETED, "the run is done", closed)
    return Judgement(JobState.FAILED, closed.message or f"the run failed with {closed.exit_code}", closed)


def _of_the_cluster(snapshot: RunSnapshot, has_begun: bool, seen: Seen) -> Judgement:
    """The end of a job whose record has none: it was stopped from outside, or broke."""
    last = snapshot.own_attempt if has_begun else None
    away = _stays_away(last) if last else None
    if away is not None and away.is_cancelled:
        return Judgement(JobState.CANCELLED, f"{away.why}, as the record says; {seen}")
    said = f"; {away.why}" if away is not None else ""
    if seen.word in _ENDS:
        return Judgement(_ENDS[seen.word], f"{seen}{said}")
    stopped = last.why_stopped if last else None
    if stopped is not None and stopped.reason in _ENDS_BY_REASON:
        why = f"{stopped.reason.value}, as the record says; {seen}{said}"
        return Judgement(_ENDS_BY_REASON[stopped.reason], why)
    what = "no agent has recorded a start" if not has_begun else "the record has no end"
    return Judgement(JobState.FAILED, f"{seen}, and {what}{said}")


def _stays_away(attempt: AttemptSnapshot) -> StaysAway | None:
    """What the record says of the end of a job; of an element of a pool it says nothing of the others."""
    return None if attempt.start.share else attempt.stays_away
