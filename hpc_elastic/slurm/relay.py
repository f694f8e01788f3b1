"""When an element of a pool hands over to its successor before its time limit.

Elements that were started together end together, so each goes early, one after the other: the one that has
been there longest, which has rank 0, and the next only after its successor had the time to come. The job is
requeued when its agent has left, with a fresh time limit.
"""

from __future__ import annotations

from typing import Final

from hpc_elastic.agent.notices import Heard, Kind
from hpc_elastic.rendezvous.record import Reason, Scope
from hpc_elastic.rendezvous.standing import Standing
from hpc_elastic.slurm.job_record import duration_s
from hpc_elastic.values import dataclass

# By then every element goes. Slurm's own notice comes soon: our template asks for 60 s, and Slurm may be
# 60 s early.
LEAD_S: Final = 120.0
# Between two that go: Slurm starts a requeued job again after two minutes.
GAP_S: Final = 150.0
_LONGEST_DRAIN_S: Final = 600.0


@dataclass(frozen=True)
class Place:
    """Where an element stands: of `world` nodes, `least` of them needed, in a round that is `age_s` old."""

    rank: int
    world: int
    least: int
    age_s: float


def lead_s(limit_s: float) -> float:
    """How long before its limit an element goes, whatever the others do."""
    return min(LEAD_S, limit_s / 2)


def gap_s(limit_s: float, world: int) -> float:
    """How long after one element the next one goes."""
    return min(GAP_S, (limit_s - lead_s(limit_s)) / (world + 1))


def is_due(left_s: float, limit_s: float, place: Place) -> bool:
    """Whether the element goes now, `left_s` before its limit of `limit_s`."""
    if left_s <= lead_s(limit_s):
        return True
    gap = gap_s(limit_s, place.world)
    is_early = left_s <= lead_s(limit_s) + place.world * gap
    return is_early and place.rank == 0 and place.world > place.least and place.age_s >= gap


@dataclass
class Relay:
    """Watches the time of one element. `ends_at_s` is on the clock that `look` is asked with."""

    limit_s: float
    ends_at_s: float
    least: int
    _round: int = 0
    _since_s: float = 0.0
    _is_over: bool = False

    def look(self, standing: Standing, now_s: float) -> Heard | None:
        """The notice to hand over, once."""
        if standing.round is None or standing.rank is None or self._is_over:
            return None
        if standing.round.number != self._round:
            self._round, self._since_s = standing.round.number, now_s
        world = len(standing.round.members)
        place = Place(standing.rank, world, self.least, now_s - self._since_s)
        left_s = self.ends_at_s - now_s
        if standing.drain is not None or standing.end is not None or not is_due(left_s, self.limit_s, place):
            return None
        self._is_over = True
        return Heard(Kind.NOTICE, "", Reason.TIME_LIMIT, Scope.NODE, min(left_s / 2, _LONGEST_DRAIN_S))


def of_limit(text: str, epoch_s: float, now_s: float, least: int) -> Relay | None:
    """By what the batch shell has read of the job: `<seconds since 1970> <TimeLimit> <RunTime>`.

    None where there is no limit. `epoch_s` and `now_s` are this moment, on the clock of the shell and on that
    of `Relay.look`.
    """
    read_at, limit, run_time = (*text.split(), "", "", "")[:3]
    limit_s, ran_s = duration_s(limit), duration_s(run_time)
    if limit_s is None or ran_s is None or not (read_at.isascii() and read_at.isdecimal()):
        return None
    left_s = limit_s - ran_s - (epoch_s - int(read_at))
    return Relay(limit_s, now_s + left_s, least)
