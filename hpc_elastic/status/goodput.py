"""Where the time of a run went. Pure; wall times of the record, for people and not for decisions.

Every second from the first start to the end (or to now) is of one kind, so that the kinds add up to the
elapsed time. A step that had to be done again counts as repeated where it was done in vain.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from hpc_elastic.rendezvous.record import NodeState
from hpc_elastic.status.history import History
from hpc_elastic.status.snapshot import RoundSnapshot, RunSnapshot
from hpc_elastic.status.times import wall_s


class Kind(str, Enum):
    """What a stretch of time was spent on."""

    USEFUL = "useful"
    REPEATED = "repeated"
    SAVING = "saving"
    RESTARTING = "restarting"
    WAITING = "waiting"


MEANINGS = {
    Kind.USEFUL: "training whose result was kept",
    Kind.REPEATED: "training that was lost and done again",
    Kind.SAVING: "from a notice or drain to the end of the round",
    Kind.RESTARTING: "nodes meeting and workers starting, up to the first step",
    Kind.WAITING: "no node there: waiting in the queue",
}


@dataclass(frozen=True)
class Stretch:
    """One stretch of a run's time, in seconds since 1970; `round` is 0 between rounds."""

    kind: Kind
    begin_s: float
    end_s: float
    attempt: int
    round: int

    @property
    def length_s(self) -> float:
        """Its length."""
        return self.end_s - self.begin_s


@dataclass(frozen=True)
class Goodput:
    """All stretches, without gaps and in order."""

    stretches: tuple[Stretch, ...] = ()

    @property
    def begin_s(self) -> float:
        """When the run first started."""
        return self.stretches[0].begin_s if self.stretches else 0.0

    @property
    def elapsed_s(self) -> float:
        """From the first start to the end, or to now."""
        return self.stretches[-1].end_s - self.begin_s if self.stretches else 0.0

    def seconds(self, kind: Kind) -> float:
        """How long all stretches of a kind took together."""
        return sum(one.length_s for one in self.stretches if one.kind is kind)

    @property
    def share(self) -> float:
        """The useful part of the elapsed time, 0 to 1."""
        return self.seconds(Kind.USEFUL) / self.elapsed_s if self.elapsed_s > 0 else 0.0


def of_run(run: RunSnapshot, history: History, now_s: float) -> Goodput:
    """The stretches of a run; `now_s` is wall time since 1970, the end of one that is not over."""
    if not run.attempts:
        return Goodput()
    over_s = _over_s(run, now_s)
    builder = _Builder(min(wall_s(run.attempts[0].start.started_at) or over_s, over_s), over_s)
    kept_below = _first_steps_after(run, history)
    for number, attempt in enumerate(run.attempts):
        begin_s = wall_s(attempt.start.started_at)
        builder.until(begin_s, Kind.WAITING, 0, 0)
        of_attempt = [one for one in run.rounds if one.attempt == attempt.number and one.has_started]
        for agreed in of_attempt:
            _add_round(builder, agreed, history, kept_below.get(agreed.number))
        if number + 1 < len(run.attempts):
            builder.until(_left_s(run, history, attempt.number), Kind.RESTARTING, attempt.number, 0)
    is_waiting = run.closed is None and _has_left(run)
    last = run.attempts[-1].number
    if is_waiting:
        builder.until(_left_s(run, history, last), Kind.RESTARTING, last, 0)
    builder.until(over_s, Kind.WAITING if is_waiting else builder.ongoing, last, 0)
    return Goodput(tuple(builder.stretches))


class _Builder:
    """Adds stretch to stretch: each begins where the last one ended, and none is negative."""

    def __init__(self, begin_s: float, over_s: float) -> None:
        self.stretches: list[Stretch] = []
        self.ongoing = Kind.RESTARTING
        self._at_s = begin_s
        self._over_s = over_s

    @property
    def at_s(self) -> float:
        return self._at_s

    def until(self, end_s: float | None, kind: Kind, attempt: int, round_number: int) -> None:
        if end_s is None:
            return
        end_s = min(end_s, self._over_s)
        if end_s > self._at_s:
            self.stretches.append(Stretch(kind, self._at_s, end_s, attempt, round_number))
            self._at_s = end_s


def _add_round(builder: _Builder, agreed: RoundSnapshot, history: History, again_from: int | None) -> None:
    marks = [mark for mark in history.of_round(agreed.number) if mark.step >= 0]
    started_s = wall_s(agreed.verdict.created_at) if agreed.verdict else None
    first_s = marks[0].at_s if marks else started_s
    where = (agreed.attempt, agreed.number)
    builder.until(first_s, Kind.RESTARTING, *where)
    end_s = wall_s(agreed.end.created_at) if agreed.end else None
    drain_s = wall_s(agreed.drain.created_at) if agreed.drain else None
    trained_until_s = drain_s if drain_s is not None else end_s
    if trained_until_s is None:
        builder.ongoing = Kind.USEFUL
        trained_until_s = float("inf")
    steps = history.steps_of_round(agreed.number)
    lost = _lost_share(*steps, again_from) if steps is not None else 0.0
    if lost and trained_until_s != float("inf"):
        kept_until_s = trained_until_s - lost * max(0.0, trained_until_s - builder.at_s)
        builder.until(kept_until_s, Kind.USEFUL, *where)
        builder.until(trained_until_s, Kind.REPEATED, *where)
    else:
        builder.until(trained_until_s, Kind.USEFUL, *where)
    if drain_s is not None:
        builder.until(end_s, Kind.SAVING, *where)
        builder.ongoing = Kind.SAVING
    if end_s is not None:
        builder.ongoing = Kind.RESTARTING


def _lost_share(first: int, last: int, again_from: int | None) -> float:
    """The part of the steps `first` to `last` that was done again from `again_from` on."""
    if again_from is None or again_from > last:
        return 0.0
    return (last - max(first, again_from) + 1) / (last - first + 1)


def _first_steps_after(run: RunSnapshot, history: History) -> dict[int, int]:
    """For each round the lowest step at which a later one began; it is missing where none did."""
    found: dict[int, int] = {}
    lowest: int | None = None
    for agreed in reversed(run.rounds):
        if lowest is not None:
            found[agreed.number] = lowest
        steps = history.steps_of_round(agreed.number)
        if steps is not None:
            lowest = steps[0] if lowest is None else min(lowest, steps[0])
    return found


def _over_s(run: RunSnapshot, now_s: float) -> float:
    return now_s if run.closed is None else (wall_s(run.closed.created_at) or now_s)


def _has_left(run: RunSnapshot) -> bool:
    """Whether no node of the newest attempt is there any more."""
    newest = run.attempts[-1].number
    here = [one for one in run.presences if one.attempt == newest]
    return bool(here) and all(one.state is NodeState.LEFT for one in here)


def _left_s(run: RunSnapshot, history: History, attempt: int) -> float | None:
    """When the last word of an attempt was said: by an agent, a round's end or a requeue."""
    said = [word.at_s for word in history.words if word.attempt == attempt]
    ends = (one.end.created_at for one in run.rounds if one.attempt == attempt and one.end is not None)
    found = run.attempt(attempt)
    asked: Iterable[str] = (one.created_at for one in found.requeues) if found is not None else ()
    times = [*said, *(at for text in (*ends, *asked) if (at := wall_s(text)) is not None)]
    return max(times, default=None)
