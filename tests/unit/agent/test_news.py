"""Standings become inputs once each, in an order that the machine can follow."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from hpc_elastic.agent import news
from hpc_elastic.agent.inputs import (
    DrainSeen,
    NoticeSeen,
    RecordFailed,
    RoundEnded,
    RoundMissed,
    RoundStarted,
    RunClosed,
    StopKnown,
)
from hpc_elastic.errors import RecordLost
from hpc_elastic.rendezvous.record import Cause, Closed, Drain, End, Member, Notice, Reason, Round, Scope
from hpc_elastic.rendezvous.standing import Standing

ME: Final = "1-n0-aa"
PEER: Final = "1-n1-bb"
ROUND: Final = Round(
    3, (1,), (Member(ME, "n0", 1, "default", "10.0.0.1"),), "10.0.0.1", 4000, "", 0, 0, "", PEER
)
EMPTY: Final = Standing(attempt=1, node=ME)
RUNNING: Final = replace(EMPTY, round=ROUND, rank=0)
DRAIN: Final = Drain(3, Reason.PREEMPTED, 20.0, True, (ME, PEER), "", PEER)
NOTICE: Final = Notice(1, Reason.UNKNOWN, Scope.RUN, 30.0, ME, "SIGTERM", "", ME)
END: Final = End(3, Cause.WORKER_FAILED, PEER, 1, 1, "boom", -1, "", PEER)
CLOSED: Final = Closed(4, 1, False, 3, 42, "rank 1 failed", "", PEER)


def test_nothing_new_is_no_input() -> None:
    assert news.since(news.NOTHING, EMPTY) == (news.NOTHING, ())


def test_each_thing_is_told_once() -> None:
    everything = replace(
        RUNNING,
        drain=DRAIN,
        drain_seen_at_s=100.0,
        stop_step=7,
        end=END,
        notice=NOTICE,
        notice_seen_at_s=90.0,
        closed=CLOSED,
        error=RecordLost("gone"),
    )
    told, _ = news.since(news.NOTHING, RUNNING)

    told, first = news.since(told, everything)
    _, again = news.since(told, everything)

    assert first == (
        RunClosed(False, 42, "rank 1 failed"),
        NoticeSeen(Reason.UNKNOWN, 120.0, ask=True),
        DrainSeen(Reason.PREEMPTED, 120.0, leaving=True),
        StopKnown(7),
        RoundEnded(Cause.WORKER_FAILED, "boom"),
        RecordFailed(84, "gone"),
    )
    assert again == ()


def test_who_has_the_failed_rank_elsewhere_is_told_so() -> None:
    members = (*ROUND.members, Member(PEER, "n1", 1, "default", "10.0.0.2"))
    closed = replace(CLOSED, node="n1", rank=1)
    both = replace(RUNNING, round=replace(ROUND, members=members), closed=closed)

    assert news.since(news.NOTHING, both)[1][0] == RunClosed(False, 42, "rank 1 failed", "rank 1 on n1")
    assert news.since(news.NOTHING, replace(both, rank=1))[1][0] == RunClosed(False, 42, "rank 1 failed")
    assert news.since(news.NOTHING, replace(EMPTY, closed=closed))[1][0] == RunClosed(
        False, 42, "rank 1 failed"
    )


def test_a_fresh_round_starts() -> None:
    assert news.since(news.NOTHING, RUNNING)[1] == (RoundStarted(3),)


def test_a_round_that_is_drained_or_over_when_first_seen_is_not_begun() -> None:
    drained = replace(RUNNING, drain=replace(DRAIN, everybody=False, leaving=(PEER,)), drain_seen_at_s=1.0)
    told, inputs = news.since(news.NOTHING, drained)

    assert inputs == (RoundMissed(3, ended=False, leaving=False),)
    assert news.since(told, replace(drained, end=END, stop_step=0))[1] == ()
    assert news.since(news.NOTHING, replace(RUNNING, end=END))[1] == (
        RoundMissed(3, ended=True, leaving=False),
    )


def test_the_next_round_is_told_after_an_ended_one() -> None:
    told, _ = news.since(news.NOTHING, replace(RUNNING, end=END))

    assert news.since(told, replace(RUNNING, round=replace(ROUND, number=4)))[1] == (RoundStarted(4),)


def test_a_bettered_notice_is_told_again_without_asking_again() -> None:
    told, first = news.since(news.NOTHING, replace(EMPTY, notice=NOTICE, notice_seen_at_s=0.0))
    better = replace(NOTICE, reason=Reason.PREEMPTED, seconds_left=18.0)

    _, second = news.since(told, replace(EMPTY, notice=better, notice_seen_at_s=1.0))

    assert first == (NoticeSeen(Reason.UNKNOWN, 30.0, ask=True),)
    assert second == (NoticeSeen(Reason.PREEMPTED, 19.0, ask=False),)


def test_only_the_node_whose_word_became_the_record_asks() -> None:
    others = replace(EMPTY, notice=replace(NOTICE, writer=PEER, node=PEER), notice_seen_at_s=0.0)

    assert news.since(news.NOTHING, others)[1] == (NoticeSeen(Reason.UNKNOWN, 30.0, ask=False),)


def test_a_notice_to_one_other_node_is_not_for_us() -> None:
    others = replace(NOTICE, writer=PEER, node=PEER, scope=Scope.NODE)

    assert news.since(news.NOTHING, replace(EMPTY, notice=others, notice_seen_at_s=0.0))[1] == ()
