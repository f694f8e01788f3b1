"""One situation, one decision: forming a round, settling the one before, judging what is proposed."""

from __future__ import annotations

from typing import Any

import pytest

from hpc_elastic.errors import RendezvousExhaustedError
from hpc_elastic.rendezvous.actions import Fail
from hpc_elastic.rendezvous.machine import decide
from hpc_elastic.rendezvous.record import (
    Cause,
    Closed,
    Reason,
    Round,
    Settled,
    Verdict,
)
from hpc_elastic.rendezvous.seen import RoundView, Sighting, Wish
from hpc_elastic.rendezvous.situation import Situation
from hpc_elastic.values import replace
from tests.unit.rendezvous.worlds import (
    AB,
    ABC,
    AGAIN,
    FAILED,
    LEFT,
    NOW_S,
    RULES,
    RUNS,
    a_returns,
    after_publishing,
    back,
    drain,
    end,
    joins,
    made,
    node,
    notice,
    presence,
    round_of,
    runs,
    settled,
    sighting,
    situation,
    view,
)

# Forming


@pytest.mark.parametrize(
    ("why", "s"),
    [
        ("too few are there", situation("a")),
        ("the last call runs: c is given to the job and was not seen", situation("a", joins("b"))),
        ("another is first in line", situation("b", joins("a"), joins("c"))),
        ("one of two is silent", situation("a", sighting(presence("b"), silent_s=16.0))),
        ("a round of others runs", situation("c", runs("a"), runs("b"), front=view(AB))),
        ("a notice stands", situation("a", joins("b"), joins("c"), notice=notice())),
        (
            "a member is still stopping",
            a_returns(back("b"), runs("c")),
        ),
    ],
)
def test_no_round_is_formed_when(why: str, s: Situation) -> None:
    assert made(s) is None, why


@pytest.mark.parametrize(
    ("why", "s", "names"),
    [
        ("all expected are there", situation("a", joins("b"), joins("c")), "abc"),
        ("the maximum is there", situation("a", joins("b"), joins("c"), joins("d")), "abc"),
        (
            "the last call is over",
            situation("a", joins("b"), settings=replace(RULES, last_call_s=0.2)),
            "ab",
        ),
        (
            "the attempt has started before: nobody is waited for who never came",
            situation("a", joins("b"), attempt_has_started=True),
            "ab",
        ),
    ],
)
def test_the_first_in_line_forms_a_round_when(why: str, s: Situation, names: str) -> None:
    record = made(s)

    assert isinstance(record, Round), why
    assert [member.name for member in record.members] == list(names)
    assert (record.number, record.master_port, record.writer) == (1, 1000, node("a"))


def test_a_stand_in_forms_the_round_when_the_first_in_line_does_not_act() -> None:
    s = situation("b", joins("a"), joins("c"))

    assert made(replace(s, due_since_s=NOW_S - 15.0)) is None
    assert isinstance(made(replace(s, due_since_s=NOW_S - 21.0)), Round)


def test_survivors_keep_their_order_and_newcomers_follow() -> None:
    front = view(round_of("c", "a"), settled=settled(Cause.MEMBERS_JOINING), **end(Cause.MEMBERS_JOINING))
    s = situation("c", back("a"), joins("b"), front=front, wish=AGAIN, own=presence("c", round=1))

    record = made(s)

    assert isinstance(record, Round)
    assert [member.name for member in record.members] == ["c", "a", "b"]


def test_a_spare_does_not_take_the_place_of_a_member_that_is_on_its_way_back() -> None:
    s = situation(
        "a", runs("b"), joins("c"), front=view(AB, **FAILED), wish=AGAIN, settings=replace(RULES, max_nodes=2)
    )

    assert made(s) is None


def test_a_node_that_was_a_member_is_in_line_only_once_it_knows_that_its_round_is_over() -> None:
    front = view(AB, settled=settled(Cause.MEMBER_LOST), **end(Cause.MEMBER_LOST, "c"))
    s = situation("a", joins("b", round=0), front=front, wish=AGAIN, attempt_has_started=True)

    assert made(s) is None


def test_joining_gives_up_in_time_with_the_numbers() -> None:
    s = situation("a", wish=Wish(joining=1, joining_since_s=NOW_S - 601.0))

    (action,) = [one for one in decide(after_publishing(s)) if isinstance(one, Fail)]

    assert isinstance(action.error, RendezvousExhaustedError)
    assert "1 of 2 nodes joined in 601 s" in str(action.error)


# Settling and budgets


@pytest.mark.parametrize(
    ("why", "s", "cause"),
    [
        (
            "all came back",
            a_returns(back("b"), back("c")),
            "WORKER_FAILED",
        ),
        (
            "one is silent",
            a_returns(back("b"), runs("c", silent_s=16.0)),
            "MEMBER_LOST",
        ),
        (
            "one has left",
            a_returns(back("b"), runs("c", LEFT)),
            "MEMBER_LEFT",
        ),
        (
            "a drain stood",
            a_returns(back("b"), back("c"), **drain()),
            "DRAIN",
        ),
        (
            "newcomers were let in",
            a_returns(back("b"), back("c"), **drain(reason=Reason.MEMBERSHIP)),
            "MEMBERS_JOINING",
        ),
    ],
)
def test_a_failure_is_settled_by_what_else_was_seen(why: str, s: Situation, cause: str) -> None:
    record = made(s)

    assert isinstance(record, Settled), why
    assert record.cause is Cause[cause]


def test_a_member_that_was_not_seen_since_the_end_is_in_doubt_and_costs_nothing() -> None:
    unseen = replace(runs("c"), lived_at_s=NOW_S - 90.0)
    old_end = {**FAILED, "end_seen_at_s": NOW_S - 80.0}
    record = made(situation("a", back("b"), unseen, front=view(ABC, **old_end), wish=AGAIN))

    assert isinstance(record, Settled)
    assert record.cause is Cause.MEMBER_LOST


@pytest.mark.parametrize(("failures", "kind"), [(0, Round), (2, Round), (3, Closed)])
def test_the_run_is_closed_when_the_budget_is_spent(failures: int, kind: type[Round] | type[Closed]) -> None:
    front = view(round_of("a", "b", failures=failures), settled=settled(Cause.WORKER_FAILED), **FAILED)
    record = made(situation("a", back("b"), front=front, wish=AGAIN, attempt_has_started=True))

    assert isinstance(record, kind)
    assert record.failures == failures + 1


@pytest.mark.parametrize("cause", [Cause.NO_PROGRESS, Cause.TIMER_EXPIRED])
def test_a_worker_that_had_to_be_ended_costs_a_restart_under_its_own_cause(cause: Cause) -> None:
    record = made(a_returns(back("b"), back("c"), **end(cause)))

    assert isinstance(record, Settled)
    assert record.cause is cause


def test_the_run_that_such_a_worker_closes_has_no_status_of_a_worker() -> None:
    front = view(round_of("a", "b", failures=3), settled=settled(Cause.NO_PROGRESS), **end(Cause.NO_PROGRESS))
    ended = front.end
    assert ended is not None
    front = replace(front, end=replace(ended, exit_code=-9, message="no progress for 30 s"))
    record = made(situation("a", back("b"), front=front, wish=AGAIN, attempt_has_started=True))

    assert isinstance(record, Closed)
    assert record.exit_code == 1
    assert record.message.startswith("rank 1 on b was ended: no progress for 30 s (failure 4 of the run")


# Judging a proposed round


def proposed(me: str, *others: Sighting, since_s: float = 1.0, **changes: Any) -> Situation:
    front = RoundView(1, ABC, seen_at_s=NOW_S - since_s)
    own = presence(me, RUNS, round=1)
    return situation(me, *others, own=own, front=front, **changes)


@pytest.mark.parametrize(
    ("why", "s", "verdict"),
    [
        ("all have confirmed", proposed("a", runs("b"), runs("c")), True),
        ("one has not", proposed("a", runs("b"), joins("c")), None),
        ("one is silent", proposed("a", runs("b"), sighting(presence("c"), silent_s=16.0)), False),
        ("one has left", proposed("a", runs("b"), runs("c", LEFT)), False),
        ("one does not confirm for long", proposed("a", runs("b"), joins("c"), since_s=31.0), False),
        ("a notice stands", proposed("a", runs("b"), runs("c"), notice=notice()), False),
        ("it is not for b to say", proposed("b", runs("a"), runs("c")), None),
        ("b stands in for a silent proposer", proposed("b", runs("a", silent_s=16.0), runs("c")), True),
        (
            "b stands in for a proposer that does not act",
            proposed("b", runs("a"), runs("c"), since_s=26.0),
            True,
        ),
    ],
)
def test_a_proposed_round_is_judged(why: str, s: Situation, verdict: bool | None) -> None:
    record = made(s)

    found = record.started if isinstance(record, Verdict) else record
    assert found is verdict, why
