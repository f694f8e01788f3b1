"""Signals become entries of a mailbox, in order; nothing else happens when one comes."""

from __future__ import annotations

import os
import select
import signal
import threading
from collections.abc import Iterator

import pytest

from hpc_elastic.agent.signals import Mailbox

_USED = (signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP, signal.SIGCHLD)


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    before = {signum: signal.getsignal(signum) for signum in _USED}
    yield
    signal.set_wakeup_fd(-1)
    for signum, handler in before.items():
        signal.signal(signum, handler)


def is_readable(mailbox: Mailbox) -> bool:
    return bool(select.select([mailbox.fileno()], [], [], 0)[0])


def test_signals_are_taken_in_the_order_in_which_they_came() -> None:
    mailbox = Mailbox.open((signal.SIGUSR1, signal.SIGUSR2))

    for signum in (signal.SIGUSR2, signal.SIGUSR1, signal.SIGUSR2):
        os.kill(os.getpid(), signum)

    assert mailbox.take() == [signal.SIGUSR2, signal.SIGUSR1, signal.SIGUSR2]
    assert mailbox.take() == []
    mailbox.close()


def test_the_end_of_a_child_wakes_without_being_an_entry() -> None:
    mailbox = Mailbox.open((signal.SIGUSR1,))

    os.kill(os.getpid(), signal.SIGCHLD)

    assert is_readable(mailbox)
    assert mailbox.take() == []
    assert not is_readable(mailbox)
    mailbox.close()


def test_a_thread_can_wake_the_one_who_waits() -> None:
    mailbox = Mailbox.open((signal.SIGUSR1,))
    assert not is_readable(mailbox)

    mailbox.wake()

    assert is_readable(mailbox)
    mailbox.close()
    mailbox.wake()  # too late, and harmless


def test_a_hangup_that_was_ignored_stays_ignored() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)

    mailbox = Mailbox.open((signal.SIGHUP, signal.SIGUSR1))

    assert mailbox.caught == {signal.SIGUSR1}
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    mailbox.close()


def test_what_was_pending_at_the_start_is_in_the_mailbox() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2})
    # To this thread: the test run has others, which do not block it.
    signal.pthread_kill(threading.get_ident(), signal.SIGUSR2)

    mailbox = Mailbox.open((signal.SIGUSR2,))

    assert mailbox.take() == [signal.SIGUSR2]
    mailbox.close()


def test_a_flood_of_signals_blocks_nobody_and_loses_no_kind() -> None:
    mailbox = Mailbox.open((signal.SIGUSR1, signal.SIGUSR2))

    for _ in range(5000):
        os.kill(os.getpid(), signal.SIGUSR1)
    heard = set(mailbox.take())
    os.kill(os.getpid(), signal.SIGUSR2)

    assert heard == {signal.SIGUSR1}
    assert mailbox.take() == [signal.SIGUSR2]
    mailbox.close()


def test_once_closed_a_signal_changes_nothing() -> None:
    mailbox = Mailbox.open((signal.SIGUSR1,))

    mailbox.close()

    assert signal.getsignal(signal.SIGUSR1) is signal.SIG_IGN
