"""Calls to a file server that fails now and then: tried again for a moment, where no loop does it anyway."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Final, TypeVar

from hpc_elastic.clock import SYSTEM_CLOCK, Clock

T = TypeVar("T")

PASSING: Final = {
    errno.EAGAIN,
    errno.EDQUOT,
    errno.EINTR,
    errno.EIO,
    errno.ENOSPC,
    errno.ESTALE,
    errno.ETIMEDOUT,
}
_PAUSES_S: Final = (0.02, 0.05, 0.1, 0.2, 0.4, 0.6, 0.6)


def persist(act: Callable[[], T], clock: Clock = SYSTEM_CLOCK) -> T:
    """The result of `act`, tried eight times within two seconds while it raises an error that may pass.

    Raises the last `OSError`, and any other kind at once.
    """
    for pause_s in _PAUSES_S:
        try:
            return act()
        except OSError as failed:
            if failed.errno not in PASSING:
                raise
        clock.sleep_s(pause_s)
    return act()
