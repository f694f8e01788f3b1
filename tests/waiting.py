"""Waiting in tests: always for a condition, always with a deadline."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

_LOOK_EVERY_S = 0.02
_STOOD_STILL_S = 0.5


def wait_until(condition: Callable[[], T], timeout_s: float, what: str) -> T:
    """The first true value of `condition`; an AssertionError that names `what` after `timeout_s`.

    The condition is looked at once more when the time is over, and time in which this process stood still
    does not count (nor did what it waits for get any further), so a slow machine is not a failure.
    """
    deadline_s = time.monotonic() + timeout_s
    pause = threading.Event()
    while True:
        over = time.monotonic() >= deadline_s
        value = condition()
        if value:
            return value
        if over:
            raise AssertionError(f"not within {timeout_s:g} s: {what}; last seen: {value!r}")
        asleep_at_s = time.monotonic()
        pause.wait(_LOOK_EVERY_S)
        overslept_s = time.monotonic() - asleep_at_s - _LOOK_EVERY_S
        if overslept_s > _STOOD_STILL_S:
            deadline_s += overslept_s
