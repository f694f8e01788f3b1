"""What Slurm's words for job states mean, of one job and of all elements of an array together. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from hpc_elastic.slurm.job_record import JobRecord
from hpc_elastic.submission.states import Seen, Sight

_WAITING: Final = frozenset(
    {"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT", "RESV_DEL_HOLD"}
)
_ACTIVE: Final = frozenset(
    {"RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "SIGNALING", "STAGE_OUT", "RESIZING"}
)
# An array that has ended in several ways is called by the first of these: a failure says most, and those
# that were taken out of the queue say nothing of the others.
_BY_WEIGHT: Final = ("TIMEOUT", "DEADLINE", "PREEMPTED", "CANCELLED")


def sight_of(state: str) -> Sight:
    """What a state of one job means for whoever waits for it."""
    if state in _WAITING:
        return Sight.WAITING
    return Sight.ACTIVE if state in _ACTIVE else Sight.ENDED


def seen(records: Sequence[JobRecord], source: str) -> Seen:
    """One look at an array by the records of its elements; those that have not started share one."""
    if not records:
        return Seen(Sight.UNSEEN, "no element is shown", source)
    return of_states(tuple(one.state for one in records), source)


def together(looks: Sequence[Seen]) -> Seen:
    """One look at several jobs of the same run: what still goes on counts, then what nobody could see."""
    for sight in (Sight.ACTIVE, Sight.WAITING, Sight.UNSEEN):
        found = next((one for one in looks if one.sight is sight), None)
        if found is not None:
            return found
    ended = [one for one in looks if one.sight is Sight.ENDED]
    return min(ended, key=lambda one: _weight(one.word)) if ended else looks[0]


def of_states(states: Sequence[str], source: str) -> Seen:
    """The same by the states alone: it runs while one runs, and waits while none runs and one waits."""
    sights = {sight_of(state) for state in states}
    detail = ", ".join(f"{count} {state}" for state, count in sorted(Counter(states).items()))
    for sight in (Sight.ACTIVE, Sight.WAITING):
        if sight in sights:
            word = next(state for state in states if sight_of(state) is sight)
            return Seen(sight, word, source, detail=detail)
    worst = sorted(states, key=_weight)
    return Seen(Sight.ENDED, worst[0], source, detail=detail)


def _weight(state: str) -> int:
    return _BY_WEIGHT.index(state) if state in _BY_WEIGHT else -1
