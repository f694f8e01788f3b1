"""What a test changes in this process it changes back: later tests start processes that inherit it.

And no property fails for the time that a busy machine takes: Hypothesis measures it unless told not to.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")

_KEPT = [one for one in signal.valid_signals() if one not in (signal.SIGKILL, signal.SIGSTOP)]


@pytest.fixture(autouse=True)
def signals_as_before() -> Iterator[None]:
    """The actions and the mask of signals, which `hpc-elastic run` sets for a process of its own."""
    actions = {one: signal.getsignal(one) for one in _KEPT}
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    yield
    for one, action in actions.items():
        if action is not None and signal.getsignal(one) is not action:
            signal.signal(one, action)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
