"""Without a scheduler a signal says what its number says."""

from __future__ import annotations

import signal

import pytest

from hpc_elastic.agent.notices import Kind, PlainNoticeSource
from hpc_elastic.rendezvous.record import Reason


@pytest.mark.parametrize("signum", [signal.SIGUSR1, signal.SIGUSR2])
def test_user_signals_are_notices_with_time_to_save(signum: signal.Signals) -> None:
    heard = PlainNoticeSource(shutdown_timeout_s=30.0).read(signum)

    assert (heard.kind, heard.signal, heard.seconds_left) == (Kind.NOTICE, signum.name, 60.0)


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_the_others_are_orders_to_end_within_the_shutdown_timeout(signum: signal.Signals) -> None:
    heard = PlainNoticeSource(shutdown_timeout_s=30.0).read(signum)

    assert (heard.kind, heard.reason, heard.seconds_left) == (Kind.TERMINATE, Reason.UNKNOWN, 30.0)


def test_the_notice_signals_can_be_chosen() -> None:
    source = PlainNoticeSource(shutdown_timeout_s=30.0, notice_signals=(signal.SIGTERM,))

    assert source.read(signal.SIGTERM).kind is Kind.NOTICE
    assert source.read(signal.SIGUSR1).kind is Kind.TERMINATE


def test_nobody_can_be_asked() -> None:
    assert PlainNoticeSource(shutdown_timeout_s=30.0).ask() is None


def test_ctrl_c_is_known_for_the_word_of_a_person() -> None:
    heard = PlainNoticeSource(shutdown_timeout_s=30.0).read(signal.SIGINT)

    assert (heard.kind, heard.reason, heard.seconds_left) == (Kind.TERMINATE, Reason.USER, 30.0)
