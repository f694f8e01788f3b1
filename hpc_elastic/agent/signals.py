"""The signal mailbox: handlers do nothing, the interpreter drops the number into a socket."""

from __future__ import annotations

import signal
import socket
from collections.abc import Iterable
from types import FrameType
from typing import Final

# A socket, not a pipe: the wake-up descriptor must not block, and neither must `wake` from a thread.
_DRAIN_BYTES: Final = 4096
_WAKE: Final = b"\0"  # no signal has the number 0


def _drop(signum: int, frame: FrameType | None) -> None:
    """Do nothing: the number is in the mailbox before this runs."""


class Mailbox:
    """Signals and wake-ups of one process, in order, as something `select` can wait for."""

    def __init__(self, receiver: socket.socket, sender: socket.socket, caught: frozenset[int]) -> None:
        self._receiver = receiver
        self._sender = sender
        self.caught = caught

    @classmethod
    def open(cls, signals: Iterable[int]) -> Mailbox:
        """Catch `signals` and SIGCHLD from now on. Main thread only.

        A SIGHUP that was ignored at the start (`nohup`) stays ignored, as do SIGINT and SIGQUIT
        (a background job of a shell without job control). What was blocked at the start, so that a
        notice to an interpreter that is still loading is not lost, comes in now.
        """
        receiver, sender = socket.socketpair()
        receiver.setblocking(False)
        sender.setblocking(False)
        # Two signals at once are two bytes; a full mailbox already holds thousands, and repeats
        # are harmless, so a lost byte needs no warning on stderr.
        signal.set_wakeup_fd(sender.fileno(), warn_on_full_buffer=False)
        ignored = {
            int(signum)
            for signum in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT)
            if signal.getsignal(signum) is signal.SIG_IGN
        }
        caught = {int(signum) for signum in signals} - ignored
        for signum in (*caught, signal.SIGCHLD):
            signal.signal(signum, _drop)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, caught)
        return cls(receiver, sender, frozenset(caught))

    def close(self) -> None:
        """Ignore from now on what was caught: the exit status is decided.

        At its end the interpreter gives every signal with a handler its default action back, and
        one more TERM in that moment would replace the status (measured with a storm of signals).
        """
        for signum in self.caught:
            signal.signal(signum, signal.SIG_IGN)
        signal.set_wakeup_fd(-1)
        self._sender.close()
        self._receiver.close()

    def fileno(self) -> int:
        """Readable while something is in the mailbox."""
        return self._receiver.fileno()

    def wake(self) -> None:
        """Make the mailbox readable; from any thread."""
        try:
            self._sender.send(_WAKE)
        except (BlockingIOError, OSError):
            return  # full: it is readable already; closed: nobody waits any more

    def take(self) -> list[int]:
        """The signals received since the last call, SIGCHLD left out, oldest first."""
        received = bytearray()
        while True:
            try:
                chunk = self._receiver.recv(_DRAIN_BYTES)
            except BlockingIOError:
                break
            if not chunk:
                break
            received += chunk
        return [signum for signum in received if signum not in (0, signal.SIGCHLD)]
