"""What failures have in common, and what follows: pauses, an end, nodes that are left out."""

from __future__ import annotations

from typing import Any

import pytest

from hpc_elastic.rendezvous import faults, forming
from hpc_elastic.rendezvous.history import History, Strike
from hpc_elastic.rendezvous.record import Cause, Closed, End, Round, Settled, Stop
from hpc_elastic.rendezvous.seen import RoundView
from hpc_elastic.rendezvous.standing import Settings
from hpc_elastic.settings import LONGEST_BACKOFF_S
from hpc_elastic.values import replace
from tests.unit.rendezvous.worlds import (
    AB,
    ABC,
    AGAIN,
    NOW_S,
    RULES,
    WALL,
    after_publishing,
    back,
    joins,
    made,
    node,
    settled,
    situation,
    view,
)

QUICK = 2.0
FAILURES = (Cause.WORKER_FAILED, Cause.NO_PROGRESS, Cause.TIMER_EXPIRED)


def failure(message: str = "ValueError: x", **changes: Any) -> End:
    plain = End(1, Cause.WORKER_FAILED, node("b"), 1, 1, message, -1, WALL, node("b"), ran_s=QUICK)
    return replace(plain, **changes)


def after(*ends: End, history: History | None = None) -> History:
    """The history after failures, one in each round."""
    known = history or History()
    for end in ends:
        seen = view(replace(AB, history=known), end=end, settled=_settled(end.cause, end.node))
        known = faults.history_after(seen)
    return known


def _settled(cause: Cause, name: str) -> Settled:
    return replace(settled(cause), node=name)


def test_the_same_failure_is_the_same_on_any_rank_and_with_any_numbers() -> None:
    ends = (failure("OSError: port 4711 of 0x7f3a\nmore"), failure("OSError: port 23 of 0xff", rank=0))

    assert after(*ends).alike == after(*ends).in_vain == 2


@pytest.mark.parametrize("other", [failure("ValueError: y"), failure(exit_code=42), failure(exit_code=-9)])
def test_another_failure_begins_anew_and_is_in_vain_as_well(other: End) -> None:
    found = after(failure(), other)

    assert (found.alike, found.in_vain) == (1, 2)


def test_a_failure_beyond_all_steps_so_far_is_progress() -> None:
    assert after(failure(step=3), failure(step=4)).alike == 1
    assert after(failure(step=4), failure(step=4)).alike == 2
    assert after(failure(step=4), failure(step=2), failure(ran_s=1e6)).alike == 3
    assert after(failure(step=4), failure(step=2)).reached == 4


def test_without_steps_it_is_the_time_that_tells() -> None:
    assert after(failure(ran_s=QUICK), failure(ran_s=QUICK)).alike == 2
    assert after(failure(ran_s=QUICK), failure(ran_s=3600.0)).alike == 1
    assert after(failure(ran_s=QUICK), failure(ran_s=-1.0)).alike == 1


def test_an_agreed_stop_further_on_is_progress() -> None:
    known = after(failure(), failure())
    stopped = view(replace(AB, history=known), stop=Stop(1, 8, node("a")), settled=settled(Cause.DRAIN))
    stood = view(replace(AB, history=known), stop=Stop(1, 0, node("a")), settled=settled(Cause.DRAIN))

    assert faults.history_after(stopped) == replace(known, reached=7, alike=0, in_vain=0)
    assert faults.history_after(stood) == known


def test_a_closing_ends_all_of_it() -> None:
    closing = RoundView(2, Closed(2, 1, False, 1, 82, "m", WALL, "w", failures=3))

    assert faults.history_after(closing) == History()


@pytest.mark.parametrize("cause", FAILURES)
def test_failures_count_against_their_node(cause: Cause) -> None:
    found = after(failure(cause=cause), failure(cause=cause, node=node("a")), failure(cause=cause))

    assert found.strikes == (Strike("a", failures=1), Strike("b", failures=2))


def test_a_loss_counts_against_its_node_but_in_a_pool_it_may_be_anything() -> None:
    lost = view(AB, end=failure(cause=Cause.MEMBER_LOST), settled=settled(Cause.MEMBER_LOST))

    assert faults.history_after(lost).strikes == (Strike("b", losses=1),)
    shared = replace(AB, shared=AB.attempts)
    assert faults.history_after(replace(lost, record=shared)).strikes == ()


def test_pauses_begin_after_the_second_failure_double_and_are_bounded() -> None:
    pauses = [faults.pause_s(History(in_vain=count), 1.0) for count in range(9)]

    assert pauses == [0.0, 0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, LONGEST_BACKOFF_S]
    assert faults.pause_s(History(in_vain=10**6), 1.0) == LONGEST_BACKOFF_S
    assert faults.pause_s(History(in_vain=5), 0.0) == 0.0


@pytest.mark.parametrize(
    ("strikes", "found"),
    [
        ((), ()),
        ((Strike("a", 2),), ()),
        ((Strike("a", 3),), ("a",)),
        ((Strike("a", 1, 2), Strike("b", 1)), ("a",)),
        ((Strike("a", 3), Strike("b", 2)), ()),
        ((Strike("a", 3), Strike("b", 3), Strike("c", 3)), ()),
        ((Strike("a", 4), Strike("b", 0, 2)), ("a",)),
    ],
)
def test_a_node_flaps_that_ends_rounds_while_the_others_are_fine(
    strikes: tuple[Strike, ...], found: tuple[str, ...]
) -> None:
    assert faults.flapping(History(strikes=strikes), 3) == found
    assert faults.flapping(History(strikes=strikes), 0) == ()


@pytest.mark.parametrize(
    ("end", "first", "later"),
    [
        (failure("SyntaxError: invalid syntax"), True, True),
        (failure("IndentationError: unexpected indent"), True, True),
        (failure("ModuleNotFoundError: No module named 'x'"), True, False),
        (failure("FileNotFoundError: [Errno 2] ...: 'prog'", exit_code=127), True, False),
        (failure("FileNotFoundError: [Errno 2] ...: 'train.py'", exit_code=2), True, False),
        (failure("PermissionError: [Errno 13] ...: 'prog'", exit_code=126), True, False),
        (failure("FileNotFoundError: [Errno 2] ...: 'data.bin'", exit_code=1), False, False),
        (failure("ModuleNotFoundError: No module named 'x'", ran_s=3600.0), False, False),
        (failure("SyntaxError: invalid syntax", step=5), False, False),
        (failure("RuntimeError: SyntaxError: no"), False, False),
        (failure("ValueError: batch"), False, False),
        (failure("SyntaxError: no", cause=Cause.NO_PROGRESS), False, False),
    ],
)
def test_what_no_restart_can_cure(end: End, first: bool, later: bool) -> None:
    assert faults.is_incurable(end, AB) == first
    assert faults.is_incurable(end, replace(AB, failures=1)) == later
    assert faults.is_incurable(end, replace(AB, history=History(reached=3))) == later


def closed(end: End, rules: Settings = RULES, **changes: Any) -> Closed | None:
    """The closing that a makes once all have come back after this failure, if it makes one."""
    seen = view(replace(ABC, **changes), end=end, end_seen_at_s=NOW_S - 90.0, settled=settled(end.cause))
    record = made(situation("a", back("b"), back("c"), front=seen, wish=AGAIN, settings=rules))
    assert isinstance(record, Closed | Round)
    return record if isinstance(record, Closed) else None


def test_a_crash_loop_closes_the_run_for_good_and_says_which_how_often_and_since_when() -> None:
    found = closed(failure(step=7), history=History(7, faults.fault_of(failure()), alike=2, in_vain=2))

    assert found is not None
    assert (found.exit_code, found.succeeded, found.failures) == (82, False, 1)
    assert found.message == (
        "rank 1 on b failed with exit code 1: ValueError: x: the same failure 3 times in a row, and the run "
        "got no further than step 7 in between; correct its cause and start the run again"
    )


def test_a_crash_loop_may_be_allowed_and_a_spent_budget_keeps_the_workers_own_status() -> None:
    history = History(7, faults.fault_of(failure(exit_code=42)), alike=8, in_vain=8)

    assert closed(failure(exit_code=42), replace(RULES, same_failures=0), history=history) is None
    spent = closed(failure(exit_code=42), history=history, failures=3)
    assert spent is not None
    assert spent.exit_code == 42


def test_what_cannot_be_cured_spends_no_budget() -> None:
    found = closed(failure("SyntaxError: invalid syntax"), failures=2)

    assert found is not None
    assert (found.exit_code, found.failures) == (1, 2)
    assert "no restart can cure that, and none was tried" in found.message


def returns(seen_s: float, in_vain: int = 2, members: Round = ABC, **changes: Any) -> Any:
    """a, b and c are back after their third failure in vain, `seen_s` after its end."""
    history = History(fault="other", in_vain=in_vain)
    known = view(
        replace(members, history=history),
        end=failure(),
        end_seen_at_s=NOW_S - seen_s,
        settled=settled(Cause.WORKER_FAILED),
    )
    return situation("a", back("b"), back("c"), front=known, wish=AGAIN, **changes)


def test_the_same_members_wait_for_the_pause_and_not_longer() -> None:
    assert made(returns(1.9)) is None
    assert isinstance(made(returns(2.1)), Round)
    assert "the next round begins in 1 s" in forming.waiting_text(after_publishing(returns(1.0)))


def test_the_first_restart_is_immediate() -> None:
    assert isinstance(made(returns(0.001, in_vain=0)), Round)


def test_a_change_of_membership_waits_for_no_pause() -> None:
    """c is new: a and b alone were in the round that failed."""
    history = History(fault="other", in_vain=9)
    seen = view(
        replace(AB, history=history), end=failure(), end_seen_at_s=NOW_S, settled=settled(FAILURES[0])
    )

    assert isinstance(made(situation("a", back("b"), joins("c"), front=seen, wish=AGAIN)), Round)


def test_a_pause_leaves_time_to_join() -> None:
    hurried = replace(RULES, join_timeout_s=20.0)

    assert made(returns(4.0, in_vain=9, settings=hurried)) is None
    assert isinstance(made(returns(5.1, in_vain=9, settings=hurried)), Round)
