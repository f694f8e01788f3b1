"""When a node's progress is worth a line among the events: pure, for `chronicle.py` to ask."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from hpc_elastic.workers.page import RankView

LOOK_EVERY_S: Final = 1.0
TELL_FIRST_S: Final = 1.0  # somebody may watch a run that begins; each pause is twice the last
TELL_EVERY_S: Final = 30.0


class Progress(NamedTuple):
    """How far the ranks of a node have come: the highest steps (-1: none was told), the longest save, and
    the lowest step that one of them began with.
    """

    step: int = -1
    saved_step: int = -1
    save_s: float = 0.0
    first_step: int = -1


class Pulse:
    """One round's pulse: its first step, each save, how far it is soon after, and then every half minute."""

    def __init__(self) -> None:
        self._told = Progress()
        self._told_at_s = float("-inf")
        self._pause_s = TELL_FIRST_S
        self._looked_at_s = float("-inf")

    def wants_look(self, now_s: float) -> bool:
        """Whether it is time to look at the ranks again: always, until the first step is seen."""
        if self._told.step >= 0 and now_s - self._looked_at_s < LOOK_EVERY_S:
            return False
        self._looked_at_s = now_s
        return True

    def beat(self, now: Progress, now_s: float, *, is_last: bool = False) -> Progress | None:
        """`now`, if it is to be told; everything new is, at the end of the round."""
        if now == self._told or now.step < 0:
            return None
        is_first = self._told.step < 0
        is_saved = now.saved_step > self._told.saved_step
        is_due = now_s - self._told_at_s >= self._pause_s
        if not (is_first or is_saved or is_last or is_due):
            return None
        if is_due and not is_first:
            self._pause_s = min(2 * self._pause_s, TELL_EVERY_S)
        self._told, self._told_at_s = now, now_s
        return now


def of_ranks(views: Iterable[RankView]) -> Progress:
    """The progress of a node from what its ranks have told."""
    seen = list(views)
    return Progress(
        max((max(view.progress, view.step) for view in seen), default=-1),
        max((view.saved_step for view in seen), default=-1),
        max((view.save_s for view in seen), default=0.0),
        min((view.first_step for view in seen if view.first_step >= 0), default=-1),
    )
