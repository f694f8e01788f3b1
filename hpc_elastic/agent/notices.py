"""What a signal to the agent means: a notice, or an order to end; and who can say more."""

from __future__ import annotations

import signal
from enum import Enum
from typing import Final, Protocol

from hpc_elastic.rendezvous.record import Reason, Scope
from hpc_elastic.rendezvous.standing import Standing
from hpc_elastic.values import dataclass

NOTICE_SIGNALS: Final = (signal.SIGUSR1, signal.SIGUSR2)
TERMINATE_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)

# How long the workers may take where somebody gives notice and nobody knows the deadline.
NOTICE_S: Final = 60.0


class Kind(str, Enum):
    """The two classes of signals."""

    NOTICE = "notice"  # you will have to stop
    TERMINATE = "terminate"  # stop now, in good order


@dataclass(frozen=True)
class Heard:
    """What one signal says by itself. `seconds_left` is the shortest plausible deadline."""

    kind: Kind
    signal: str
    reason: Reason
    scope: Scope
    seconds_left: float


@dataclass(frozen=True)
class Bettered:
    """What the scheduler says about the notice once it was asked."""

    reason: Reason
    seconds_left: float


class Foresee(Protocol):
    """Says by itself that this node has to leave, before anybody gives a signal."""

    def __call__(self, standing: Standing, now_s: float) -> Heard | None:
        """The notice, once its time has come. Immediate: no command, no file."""
        ...


class NoticeSource(Protocol):
    """Turns signals into notices. The Slurm one lives in `hpc_elastic.slurm.preemption`."""

    def read(self, signum: int) -> Heard:
        """What `signum` means. Pure and immediate: no command, no file."""
        ...

    def ask(self) -> Bettered | None:
        """The true reason and the time left, or None where nothing more can be known.

        Slow and bounded; called in a thread of its own, at most once per notice, and only on the
        node whose notice became the record.
        """
        ...


@dataclass(frozen=True)
class PlainNoticeSource:
    """Signals without a scheduler behind them: the number is all there is to know."""

    shutdown_timeout_s: float
    notice_signals: tuple[int, ...] = NOTICE_SIGNALS
    notice_s: float = NOTICE_S
    scope: Scope = Scope.RUN

    def read(self, signum: int) -> Heard:
        name = signal.Signals(signum).name
        if signum in self.notice_signals:
            return Heard(Kind.NOTICE, name, Reason.PREEMPTED, self.scope, self.notice_s)
        # Nobody but a person types Ctrl-C; of SIGTERM it is not known who sends it, and why.
        reason = Reason.USER if signum == signal.SIGINT else Reason.UNKNOWN
        return Heard(Kind.TERMINATE, name, reason, self.scope, self.shutdown_timeout_s)

    def ask(self) -> Bettered | None:
        return None
