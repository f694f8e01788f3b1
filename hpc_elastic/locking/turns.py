"""Turns at what many want done at the same moment, and what is done once it was done by one.

They save work and are needed for nothing else: whoever has waited for long goes on as if alone. All nodes
of a run begin at once, and a directory that each of 32 examines, and a record that each of them flushes to
the disk, took longer than all the rest of their rendezvous.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeVar

from hpc_elastic.clock import SYSTEM_CLOCK, Clock

T = TypeVar("T")

PAUSES_S: Final = tuple(0.001 * 1.5**count for count in range(12))  # a quarter of a second in all


def in_turn(mark: Path, look: Callable[[], T | None], act: Callable[[], T], clock: Clock = SYSTEM_CLOCK) -> T:
    """What `act` gives, or `look` as soon as another has done it. Raises what they do, and `OSError`.

    The folder `mark` says whose turn it is. Making it asks the server, also where this client remembers
    that something was missing; one that a dead process has left is removed by the next.
    """
    for pause_s in PAUSES_S:
        with suppress(FileExistsError):
            mark.mkdir(mode=0o700)
            break
        clock.sleep_s(pause_s)
        found = look()
        if found is not None:
            return found
    try:
        found = look()
        return act() if found is None else found
    finally:
        with suppress(OSError):
            mark.rmdir()
