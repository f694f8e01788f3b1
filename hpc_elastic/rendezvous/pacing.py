"""How soon a node looks again, and whether a glance at the bell will do for that look."""

from __future__ import annotations

from typing import Final

from hpc_elastic.rendezvous.seen import Wish
from hpc_elastic.rendezvous.situation import Phase, Situation
from hpc_elastic.rendezvous.watching import Look

FASTEST_LOOK_S: Final = 0.001
SLOWEST_HOT_LOOK_S: Final = 0.05
# Those that only wait for the first one share this many looks a second, at first and in the end: more nodes
# are no more load.
FIRST_LOOKS_OF_ALL_PER_S: Final = 8000
LOOKS_OF_ALL_PER_S: Final = 500
SLOWEST_SHARED_LOOK_S: Final = 1.0
PATIENT_LOOK_S: Final = 0.25
PATIENT_AFTER_S: Final = 30.0
# What follows from time alone, as giving up or standing in for a silent first one, may be so much later.
GLANCES_FOR_S: Final = 0.25
_WAITING: Final = (Phase.JOINING, Phase.CONFIRMING)


class Pace:
    """One node's. A hot node looks at once after a change, then less and less often.

    Who waits for the first one only glances at the bell in between: with 32 agents on two cores their
    decisions that nothing is to be decided took a third of the time of a rendezvous.
    """

    def __init__(self, heartbeat_s: float) -> None:
        self._heartbeat_s = heartbeat_s
        self._hot_look_s = FASTEST_LOOK_S
        self._slowest_s = SLOWEST_HOT_LOOK_S
        self._quiet_since_s = 0.0
        self._wish: Wish | None = None
        self._glances_until_s = float("-inf")
        self._beat_at_s = 0.0

    def note_change(self, now_s: float) -> None:
        """Something new has been seen."""
        self._quiet_since_s = now_s
        self._hot_look_s = FASTEST_LOOK_S

    def allows_a_glance(self, wish: Wish, now_s: float) -> bool:
        """Whether nothing can be due as long as the bell says the same."""
        return wish is self._wish and now_s < self._glances_until_s

    def forbid_glances(self) -> None:
        """Something is to be done that no bell will tell."""
        self._wish = None

    def after_glance(self, now_s: float) -> float:
        """In how many seconds the next look is due, after one that has shown nothing new."""
        self._hot_look_s = min(self._slowest_s, self._hot_look_s * 1.5)
        return min(self._hot_look_s, max(FASTEST_LOOK_S, self._beat_at_s - now_s))

    def after_hot_look(self, s: Situation, plan: Look) -> float:
        """The same after a full look of a node to which something is about to happen."""
        self._beat_at_s = s.written_at_s + self._heartbeat_s
        fastest_s, self._slowest_s = _hot_pace(0 if plan.is_awaited else s.settings.expected_nodes)
        if s.now_s - self._quiet_since_s > PATIENT_AFTER_S:
            self._slowest_s = max(PATIENT_LOOK_S, self._slowest_s)
            self._hot_look_s = self._slowest_s
        self._hot_look_s = max(fastest_s, self._hot_look_s)
        if s.phase in _WAITING and not plan.is_awaited:
            self._wish = s.wish
            self._glances_until_s = min(s.now_s + GLANCES_FOR_S, self._beat_at_s)
        return self.after_glance(s.now_s)


def _hot_pace(sharing: int) -> tuple[float, float]:
    """The shortest and the longest time between two looks of one of `sharing` nodes that wait."""
    slowest_s = min(SLOWEST_SHARED_LOOK_S, sharing / LOOKS_OF_ALL_PER_S)
    return min(slowest_s, sharing / FIRST_LOOKS_OF_ALL_PER_S), max(SLOWEST_HOT_LOOK_S, slowest_s)
