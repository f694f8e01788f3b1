"""How fast a run goes on, and what it saved last: from the progress of its nodes. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from hpc_elastic.status.history import History, Mark

_APART_S: Final = 0.5


@dataclass(frozen=True)
class Pace:
    """`steps_per_s` is None until two marks of one node are there; `saved_at_s` is wall time since 1970."""

    step: int
    steps_per_s: float | None = None
    saved_step: int = -1
    saved_at_s: float = 0.0
    save_s: float = 0.0


def of_round(history: History, number: int) -> Pace | None:
    """The pace of one round; None where no rank has told a step. What was saved before counts too."""
    marks = [mark for mark in history.of_round(number) if mark.step >= 0]
    if not marks:
        return None
    furthest = max(marks, key=lambda mark: (mark.step, mark.at_s))
    saves = [mark for mark in history.marks if mark.saved_step >= 0]
    if not saves:
        return Pace(furthest.step, _rate(marks, furthest.node))
    newest = max(saves, key=lambda mark: mark.saved_step)
    # Of the lines that name this save the first was written when it was done.
    first = next(mark for mark in saves if mark.saved_step == newest.saved_step)
    longest_s = max(mark.save_s for mark in saves if mark.saved_step == newest.saved_step)
    return Pace(furthest.step, _rate(marks, furthest.node), first.saved_step, first.at_s, longest_s)


def _rate(marks: list[Mark], node: str) -> float | None:
    """Between the last line of a node and one a moment before: several agents of a pool may be there."""
    *before, last = [mark for mark in marks if mark.node == node]
    first = next((mark for mark in reversed(before) if last.at_s - mark.at_s >= _APART_S), None)
    return None if first is None else (last.step - first.step) / (last.at_s - first.at_s)
