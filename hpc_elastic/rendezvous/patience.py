"""Trying an operation on the record again, where no keeper does: before a node has its membership."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from hpc_elastic.clock import Clock
from hpc_elastic.errors import BackendGone, BackendRefused, BackendUnavailable, RecordLost

T = TypeVar("T")

FIRST_PAUSE_S: Final = 0.05
LAST_PAUSE_S: Final = 2.0
TELL_AFTER_S: Final = 1.0


def _always() -> bool:
    return True


def _nobody(said: str) -> None:
    pass


def insist(
    act: Callable[[], T],
    *,
    budget_s: float,
    clock: Clock,
    is_wanted: Callable[[], bool] = _always,
    say: Callable[[str], None] = _nobody,
) -> T:
    """The result of `act`, tried again with longer and longer pauses while the record is out of reach.

    Raises `RecordLost` after `budget_s`, or once it is not wanted any more. A refusal and a record that
    has been removed are raised at once: another try would not help. `say` is told once what fails, if it
    does so for longer than a moment.
    """
    began_s, pause_s = clock.monotonic_s(), FIRST_PAUSE_S
    is_told = False
    while True:
        try:
            return act()
        except (BackendGone, BackendRefused):
            raise
        except BackendUnavailable as failed:
            lost_s = clock.monotonic_s() - began_s
            if lost_s + pause_s > budget_s or not is_wanted():
                raise RecordLost(
                    f"the run record has been out of reach for {lost_s:.0f} s: {failed}"
                ) from failed
            if lost_s >= TELL_AFTER_S and not is_told:
                is_told = True
                say(f"the run record is out of reach, trying for {budget_s:g} s: {failed}")
        clock.sleep_s(pause_s)
        pause_s = min(LAST_PAUSE_S, 1.5 * pause_s)
