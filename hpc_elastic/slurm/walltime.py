"""When the time limit asks for a stop, told by the batch side itself.

Slurm's own signal may be switched off, or come too late for a save that is known to take long. The job's
record is read every few minutes only: an administrator may change the limit, and a controller serves
the whole site.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from hpc_elastic.rendezvous.record import Reason
from hpc_elastic.slurm.job_record import JobRecord

REFRESH_S: Final = 300.0
# Nobody is told by a record that is older than this, where it can be read again.
_CERTAIN_S: Final = 30.0
# To agree on a step, to save, and to leave; a save takes longer when all do it at once.
LEAD_S: Final = 60.0
_PER_SAVE: Final = 1.5
_BESIDE_THE_SAVE_S: Final = 30.0
_MOST_OF_THE_LIMIT: Final = 0.5
# How long workers may take to their first step before it is no concern of the time limit any more.
LONGEST_START_S: Final = 600.0
# A save that is made this much less often than it takes costs a tenth of the time.
_SAVES_APART: Final = 10


def lead_s(save_s: float, limit_s: float | None, start_s: float = 0.0) -> float:
    """How long before the limit the workers are told, where a save took `save_s` (0.0: not known).

    Those that begin anew, and take `start_s` to their first step, are told before they have begun.
    """
    wanted_s = max(LEAD_S, _PER_SAVE * save_s + _BESIDE_THE_SAVE_S) + start_s
    return wanted_s if limit_s is None else min(wanted_s, _MOST_OF_THE_LIMIT * limit_s)


def warning(save_s: float, grace_s: float | None, *, was_cut: bool = False) -> str | None:
    """What to say at the start where a save that took `save_s` does not fit into the grace time.

    Of one that `was_cut` off it is only known that it does not.
    """
    if not grace_s:
        return None
    if _PER_SAVE * save_s <= grace_s:
        return _said_of_cut(grace_s) if was_cut else None
    apart_s = _SAVES_APART * save_s
    return (
        f"saving took {save_s:.0f} s before, and a preemption here leaves GraceTime={grace_s:.0f} s: "
        f"what is not saved by then is lost; save every {apart_s:.0f} s or so on your own, or save faster "
        f"(before the time limit it fits: workers are told {lead_s(save_s, None):.0f} s ahead)"
    )


def _said_of_cut(grace_s: float) -> str:
    return (
        "workers had not saved when the last preemption ended them, and one here leaves "
        f"GraceTime={grace_s:.0f} s: what is not saved by then is lost; save more often, or faster"
    )


class Front(NamedTuple):
    """The newest round of this start, and whether it is over and settled, so that the next one begins."""

    number: int
    is_settled: bool


class Walltime:
    """Watches one start of a job. `look` reads its record, None where Slurm does not answer.

    A round that begins when its workers could not come to a step before they are told cannot pay off:
    they are told at once. `front` reads the newest round (None: there is none, or it cannot be read), and
    `start_s` how long workers took to their first step; both are asked near the limit alone.
    """

    def __init__(
        self,
        look: Callable[[], JobRecord | None],
        save_s: float,
        *,
        first: JobRecord | None = None,
        read_at_s: float = float("-inf"),
        front: Callable[[], Front | None] = lambda: None,
        start_s: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self._look = look
        self._save_s = save_s
        self._record = first
        self._read_at_s = self._asked_at_s = read_at_s
        self._front = front
        self._learn_start_s = start_s
        self._start_s: float | None = None
        self._going_on: int | None = None  # the round that went on when it became too late for another

    @property
    def reason(self) -> Reason:
        """Why, by the record that was read last: within a grace time its end is the limit."""
        is_preempted = self._record is not None and self._record.preempt_time is not None
        return Reason.PREEMPTED if is_preempted else Reason.TIME_LIMIT

    def left_to_stop(self, now_s: float) -> float | None:
        """The seconds left once the workers have to be told; None as long as there is time."""
        if now_s - self._asked_at_s >= REFRESH_S:
            self._ask(now_s)
        start_s = self._start_in_vain_s(now_s)
        if self._left(now_s, start_s) is not None and now_s - self._asked_at_s > _CERTAIN_S:
            self._ask(now_s)
        return self._left(now_s, start_s)

    def _start_in_vain_s(self, now_s: float) -> float:
        """What the workers that begin now take to their first step, if a round has begun too late; else 0."""
        if self._left(now_s, LONGEST_START_S) is None:
            return 0.0
        if self._start_s is None:
            self._start_s = min(self._learn_start_s(), LONGEST_START_S)
        if self._left(now_s, self._start_s) is None:
            self._going_on = None
            return 0.0
        front = self._front()
        if front is None:
            return 0.0
        if self._going_on is None:
            self._going_on = front.number
        return self._start_s if front.is_settled or front.number > self._going_on else 0.0

    def _ask(self, now_s: float) -> None:
        self._asked_at_s = now_s
        found = self._look()
        if found is not None:
            self._record, self._read_at_s = found, now_s

    def _left(self, now_s: float, start_s: float) -> float | None:
        record = self._record
        if record is None or record.seconds_left is None:
            return None
        left_s = record.seconds_left - (now_s - self._read_at_s)
        return left_s if left_s <= lead_s(self._save_s, record.time_limit_s, start_s) else None
