"""Death signals of a process that an API agent is a guest in: noted, and raised where nothing breaks."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final

from hpc_elastic.errors import SignalException

DEATH_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)


class DeathSignals:
    """What was heard. In another thread than the main one nothing is: there its signals belong to others.

    The handler raises `SignalException` only inside `interruptible`, that is, where the agent waits: a
    rendezvous of somebody else's making cannot be woken in another way. Everywhere else it leaves a note,
    so that no worker is started and forgotten in between.
    """

    def __init__(self) -> None:
        self._heard: signal.Signals | None = None
        self._may_raise = False

    @contextmanager
    def caught(self) -> Iterator[None]:
        """Catch the death signals inside the block, and give them back afterwards.

        One that is ignored (`nohup`) stays ignored.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before: dict[signal.Signals, Any] = {}
        try:
            for signum in DEATH_SIGNALS:
                if signal.getsignal(signum) is not signal.SIG_IGN:
                    before[signum] = signal.signal(signum, self._note)
            yield
        finally:
            for signum, handler in before.items():
                signal.signal(signum, signal.SIG_DFL if handler is None else handler)

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Raise `SignalException` for what was or will be heard up to the end of the block."""
        try:
            self._may_raise = True
            self._raise()
            yield
        finally:
            self._may_raise = False

    def _note(self, signum: int, frame: FrameType | None) -> None:  # noqa: ARG002 - a handler's signature
        # The first one counts; Slurm and impatient people repeat theirs.
        self._heard = self._heard or signal.Signals(signum)
        if self._may_raise:
            self._raise()

    def _raise(self) -> None:
        if self._heard is not None:
            self._may_raise = False
            raise SignalException(f"process {os.getpid()} was told to end by {self._heard.name}", self._heard)
