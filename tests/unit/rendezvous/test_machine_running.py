"""One situation, one decision: a running round, attempts that follow one another, leaving."""

from __future__ import annotations

import pytest

from hpc_elastic.errors import RendezvousGracefulExitError
from hpc_elastic.rendezvous.actions import Action, Fail, Publish
from hpc_elastic.rendezvous.machine import RULES as TABLE
from hpc_elastic.rendezvous.machine import decide
from hpc_elastic.rendezvous.record import (
    Attempt,
    Cause,
    Closed,
    Drain,
    End,
    Outcome,
    Reason,
    Scope,
    Settled,
    Stop,
    Verdict,
)
from hpc_elastic.rendezvous.seen import EndWish, LeaveWish, NoticeWish, RoundView, Wish
from hpc_elastic.rendezvous.situation import Phase, Situation
from hpc_elastic.values import replace
from tests.unit.rendezvous.worlds import (
    AB,
    ALL_DONE,
    ATTEMPT,
    DONE,
    FAILED,
    FAILS,
    LEFT,
    NOW_S,
    OWN,
    OWN_B,
    RULES,
    a_runs,
    b_runs,
    drain,
    end,
    made,
    node,
    notice,
    presence,
    round_of,
    runs,
    sighting,
    situation,
    view,
)


@pytest.mark.parametrize("phase", list(Phase))
def test_every_phase_has_its_row(phase: Phase) -> None:
    assert phase in TABLE


# A running round


@pytest.mark.parametrize(
    ("why", "s", "cause"),
    [
        ("all is well", a_runs(runs("b")), None),
        ("b is silent", a_runs(runs("b", silent_s=16.0)), Cause.MEMBER_LOST),
        ("b has left", a_runs(runs("b", LEFT)), Cause.MEMBER_LEFT),
        (
            "b is done and silent",
            a_runs(runs("b", DONE, silent_s=16.0)),
            None,
        ),
        (
            "b is silent in a drain",
            situation("a", runs("b", silent_s=16.0), front=view(AB, **drain()), own=OWN),
            None,
        ),
        (
            "all are done",
            a_runs(runs("b", DONE), wish=ALL_DONE),
            Cause.SUCCESS,
        ),
        (
            "all are done, the other died after",
            a_runs(runs("b", DONE, silent_s=16.0), wish=ALL_DONE),
            Cause.SUCCESS,
        ),
        (
            "all are done, and it is for a to say",
            b_runs(runs("a", DONE), wish=ALL_DONE),
            None,
        ),
        (
            "a worker failed",
            situation(
                "b",
                runs("a"),
                front=view(AB),
                own=OWN_B,
                wish=FAILS,
            ),
            Cause.WORKER_FAILED,
        ),
    ],
)
def test_a_running_round_ends(why: str, s: Situation, cause: object) -> None:
    record = made(s)

    found = record.cause if isinstance(record, End) else type(record) if record else None
    assert found is cause, why


@pytest.mark.parametrize(
    ("why", "s", "step"),
    [
        ("b has not reported", situation("a", runs("b"), front=view(AB, **drain()), own=OWN), None),
        (
            "both have",
            situation("a", runs("b", drain_seen=1, step=9), front=view(AB, **drain()), own=OWN),
            10,
        ),
        ("b is gone", situation("a", runs("b", LEFT), front=view(AB, **drain()), own=OWN), 8),
    ],
)
def test_the_stop_is_agreed(why: str, s: Situation, step: int | None) -> None:
    record = made(replace(s, wish=Wish(joining=1, reported=(1, 7))))

    assert (record.step if isinstance(record, Stop) else None) == step, why


def test_a_drained_round_ends_only_when_all_are_through() -> None:
    front = view(AB, **drain(), stop=Stop(1, 8, node("a")))
    asked = Wish(joining=1, end=EndWish(1, Cause.DRAIN))

    assert made(situation("a", runs("b"), front=front, own=OWN, wish=asked)) is None
    record = made(situation("a", runs("b", stopped=1), front=front, own=OWN, wish=asked))
    assert isinstance(record, End)
    assert record.cause is Cause.DRAIN


@pytest.mark.parametrize(
    ("why", "s", "everybody"),
    [
        (
            "the leader asks for it",
            a_runs(runs("b"), notice=notice(name="b")),
            True,
        ),
        ("others wait", b_runs(runs("a"), notice=notice(name="a")), None),
        (
            "one node alone",
            situation(
                "b",
                runs("a"),
                front=view(AB),
                own=OWN_B,
                notice=notice(Scope.NODE, "b"),
                wish=Wish(joining=1, notice=NoticeWish(Reason.PREEMPTED, Scope.NODE, 60.0, NOW_S)),
            ),
            False,
        ),
    ],
)
def test_a_notice_drains_the_round(why: str, s: Situation, everybody: bool | None) -> None:
    record = made(s)

    assert (record.everybody if isinstance(record, Drain) else None) is everybody, why


def test_newcomers_are_invited_after_the_join_window_by_the_leader_alone() -> None:
    early, late = sighting(presence("c"), joining_s=0.5), sighting(presence("c"), joining_s=1.5)

    assert made(a_runs(runs("b"), early)) is None
    assert made(b_runs(runs("a"), late)) is None
    record = made(a_runs(runs("b"), late))
    assert isinstance(record, Drain)
    assert (record.reason, record.everybody) == (Reason.MEMBERSHIP, False)


def test_spares_and_old_remains_invite_nobody() -> None:
    full = replace(RULES, max_nodes=2)
    remains = replace(sighting(presence("c"), joining_s=9.0), has_moved=False)

    assert made(a_runs(runs("b"), sighting(presence("c"), joining_s=9.0), settings=full)) is None
    assert made(a_runs(runs("b"), remains)) is None


# Attempts


def test_a_node_of_a_replaced_attempt_does_nothing_but_leave() -> None:
    newer = replace(ATTEMPT, number=2, restart_count=1)
    s = a_runs(runs("b", silent_s=16.0), newer=newer)

    (action,) = decide(s)

    assert isinstance(action, Fail)
    assert isinstance(action.error, RendezvousGracefulExitError)


@pytest.mark.parametrize(
    ("why", "front", "kind"),
    [
        ("a running round is ended", view(round_of("a", "b")), End),
        ("a proposed one is abandoned", RoundView(1, round_of("a", "b")), Verdict),
        ("a failure is settled without cost", view(round_of("a", "b"), **FAILED), Settled),
        ("a success closes the run", view(round_of("a", "b"), **end(Cause.SUCCESS)), Closed),
    ],
)
def test_a_new_attempt_puts_the_older_round_in_order(why: str, front: RoundView, kind: type) -> None:
    second: Attempt = replace(ATTEMPT, number=2)
    own = presence("a", node="2-a-0", attempt=2)
    other = sighting(presence("b", node="2-b-0", attempt=2))
    s = situation("a", own=own, front=front, wish=Wish(joining=1, joining_since_s=NOW_S))
    nodes = {"2-a-0": sighting(own), "2-b-0": other}
    seen = replace(s.seen, attempt=second, mine=None, listed=0, nodes=nodes)
    s = replace(s, node="2-a-0", seen=seen, settings=replace(RULES, expected_nodes=2))

    record = made(s)

    assert isinstance(record, kind), why
    if isinstance(record, Settled):
        assert record.cause is Cause.NEWER_ATTEMPT


def test_a_success_binds_every_attempt_and_a_failure_only_its_own() -> None:
    closed = Closed(2, 1, False, 1, 1, "m", "t", "w")
    s = situation("a", front=RoundView(2, closed))

    assert s.closed == closed
    later = replace(s, seen=replace(s.seen, attempt=replace(ATTEMPT, number=2)))
    assert later.closed is None
    done = replace(closed, succeeded=True)
    assert replace(later, seen=replace(later.seen, front=RoundView(2, done))).closed == done


# Leaving


def test_the_last_one_out_of_a_drained_round_says_that_it_has_ended() -> None:
    front = view(AB, **drain(everybody=True))
    gone = Wish(joining=1, leave=LeaveWish(Outcome.SAVED, "saved"))

    assert made(situation("b", runs("a"), front=front, own=OWN_B, wish=gone)) is None
    record = made(situation("b", runs("a", LEFT), front=front, own=OWN_B, wish=gone))
    assert isinstance(record, End)


def test_leaving_is_said_before_anything_else_is_done() -> None:
    gone = Wish(joining=1, leave=LeaveWish(Outcome.SAVED, "saved"))
    actions: tuple[Action, ...] = decide(b_runs(runs("a"), wish=gone))

    (said,) = actions
    assert isinstance(said, Publish)
    assert (said.presence.state, said.presence.outcome) == (LEFT, Outcome.SAVED)
