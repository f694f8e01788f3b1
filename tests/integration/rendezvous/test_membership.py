"""Memberships over a real directory: what an agent asks for, and what it is told."""

from __future__ import annotations

import select
import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from hpc_elastic.backends.file import FileBackend
from hpc_elastic.errors import (
    RendezvousExhaustedError,
    RendezvousGracefulExitError,
    RendezvousStateError,
    UsageError,
)
from hpc_elastic.rendezvous.codec import decode_as
from hpc_elastic.rendezvous.membership import Membership
from hpc_elastic.rendezvous.record import Cause, End, Outcome, Reason, Scope, Settled
from tests.integration.rendezvous.fleet import FAST, START, TIME_S, Fleet, each, kill, started
from tests.waiting import wait_until

LONG_S = 300.0  # nobody is in a hurry


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    fleet = Fleet(tmp_path / "record")
    yield fleet
    fleet.close()


def settled(fleet: Fleet, number: int) -> Cause:
    key = f"rounds/{number}.settled"
    raw = FileBackend(fleet.root).read(key)
    assert raw is not None
    return decode_as(raw, Settled, key=key).cause


def test_ranks_of_the_first_round_follow_the_node_order_of_the_job(fleet: Fleet) -> None:
    late, early = fleet.open(1), fleet.open(0)
    late.join()
    early.join()
    started([late, early])

    assert (early.standing().rank, late.standing().rank) == (0, 1)
    assert early.standing().round == late.standing().round


def test_a_world_that_is_too_small_never_starts_and_says_who_is_missing(fleet: Fleet) -> None:
    alone = fleet.open(0)
    alone.join()

    wait_until(lambda: "missing n1" in alone.standing().waiting_for, TIME_S, "the missing node is named")
    assert alone.standing().round is None


def test_a_failure_restarts_everybody_and_beyond_the_budget_closes_the_attempt(fleet: Fleet) -> None:
    members = fleet.form(2)
    for number in (1, 2):
        started(members, number)
        members[1].end_round(Cause.WORKER_FAILED, rank=1, exit_code=-9, message="killed")
        each(members, lambda member: member.standing().end, "the end is seen")
        for member in members:
            member.join()

    each(members, lambda member: member.standing().closed, "the run is closed")
    closed = members[0].standing().closed
    assert closed is not None
    assert (closed.succeeded, closed.exit_code) == (False, 137)
    assert "rank 1" in closed.message
    assert "signal 9: killed" in closed.message


def test_the_agreed_stop_is_one_past_the_highest_step(fleet: Fleet) -> None:
    members = fleet.form(2)
    members[0].request_drain(Reason.USER, LONG_S, everybody=False)
    each(members, lambda member: member.standing().drain, "the drain is seen")
    members[0].report_step(41)
    members[1].report_step(None)

    each(members, lambda member: member.standing().stop_step == 42, "the stop is agreed")


def test_a_notice_for_the_run_drains_everybody_and_the_last_one_out_ends_the_round(fleet: Fleet) -> None:
    members = fleet.form(3)
    members[1].announce(Reason.PREEMPTED, Scope.RUN, LONG_S, "SIGUSR2")
    each(members, lambda member: member.standing().drain, "the drain is seen")
    drain, notice = members[0].standing().drain, members[0].standing().notice
    assert drain is not None
    assert notice is not None
    assert drain.everybody
    assert notice.writer == members[1].node
    left = [threading.Thread(target=lambda m=m: m.leave(Outcome.SAVED, "saved", TIME_S)) for m in members]
    for thread in left:
        thread.start()
    for thread in left:
        thread.join()

    raw = FileBackend(fleet.root).read("rounds/1.end")
    assert raw is not None
    assert decode_as(raw, End, key="rounds/1.end").cause is Cause.DRAIN


def test_the_next_start_of_the_job_goes_on_with_the_next_round(fleet: Fleet) -> None:
    for member in fleet.form(2):
        kill(member)
    again = fleet.form(2, restart=1)

    standing = again[0].standing()
    assert standing.round is not None
    assert (standing.attempt, standing.round.number, standing.failures) == (2, 2, 0)
    assert settled(fleet, 1) is Cause.NEWER_ATTEMPT


def test_success_of_all_closes_the_run_for_ever(fleet: Fleet) -> None:
    for member in (members := fleet.form(2)):
        member.mark_done()
    each(members, lambda member: member.standing().closed, "the run is closed")
    late = fleet.open(0, start=replace(START, restart_count=1))
    late.join()

    each([late], lambda member: member.standing().closed, "a later attempt finds it closed")
    closed = late.standing().closed
    assert closed is not None
    assert closed.succeeded


def test_a_newcomer_is_let_in_after_a_drain_and_the_others_keep_their_ranks(fleet: Fleet) -> None:
    members = fleet.form(2)
    newcomer = fleet.open(2)
    newcomer.join()
    each(members, lambda member: member.standing().drain, "the members are asked to stop")
    for member in members:
        member.report_step(1)
        member.end_round(Cause.MEMBERS_JOINING)
        member.join()
    started([*members, newcomer], 2)

    assert [member.standing().rank for member in (*members, newcomer)] == [0, 1, 2]
    assert settled(fleet, 1) is Cause.MEMBERS_JOINING
    assert newcomer.standing().changes == 1


def test_a_node_that_dies_is_missed_and_the_others_go_on_without_the_last_call(fleet: Fleet) -> None:
    fleet.settings = replace(FAST, last_call_s=600.0)
    dead, *rest = fleet.form(3)
    kill(dead)
    each(rest, lambda member: member.standing().end, "the loss is seen")
    for member in rest:
        member.join()
    started(rest, 2)

    assert [member.standing().rank for member in rest] == [0, 1]
    assert settled(fleet, 1) is Cause.MEMBER_LOST


def test_a_failure_beside_a_dead_node_spends_no_budget(fleet: Fleet) -> None:
    dead, *rest = fleet.form(3)
    kill(dead)
    rest[0].end_round(Cause.WORKER_FAILED, rank=1, exit_code=1, message="connection reset")
    each(rest, lambda member: member.standing().end, "the end is seen")
    for member in rest:
        member.join()
    started(rest, 2)

    assert settled(fleet, 1) is Cause.MEMBER_LOST
    assert rest[0].standing().failures == 0


def test_a_second_agent_on_a_node_is_refused_by_name(fleet: Fleet) -> None:
    members = fleet.form(2)
    second = fleet.open(1)
    second.join()

    each([second], lambda member: member.standing().error, "the second agent is refused")
    error = second.standing().error
    assert isinstance(error, UsageError)
    assert "two agents on node n1" in str(error)
    assert "--ntasks-per-node=1" in str(error)
    assert all(member.standing().error is None for member in members)


def test_an_agent_that_comes_back_takes_the_seat_of_its_dead_forerunner(fleet: Fleet) -> None:
    first, second = fleet.form(2)
    kill(second)
    back = fleet.open(1)
    back.join()
    each([first], lambda member: member.standing().end, "the loss is seen")
    first.join()
    started([first, back], 2)

    assert back.standing().rank == 1


def test_an_older_attempt_is_fenced_by_a_newer_one(fleet: Fleet) -> None:
    old = fleet.form(2)
    fleet.open(0, start=replace(START, restart_count=1)).join()

    each(old, lambda member: member.standing().error, "the older agents are told")
    assert isinstance(old[0].standing().error, RendezvousGracefulExitError)


def test_joining_is_bounded(fleet: Fleet) -> None:
    fleet.settings = replace(FAST, join_timeout_s=0.5)
    alone = fleet.open(0)
    alone.join()

    each([alone], lambda member: member.standing().error, "it gives up")
    error = alone.standing().error
    assert isinstance(error, RendezvousExhaustedError)
    assert "1 of 2 nodes" in str(error)


def test_a_loopback_address_is_refused_for_several_nodes(fleet: Fleet) -> None:
    fleet.settings = replace(FAST, allow_loopback=False)

    with pytest.raises(UsageError, match=r"127\.0\.0\.1.*HPC_ELASTIC_ALLOW_LOOPBACK=1"):
        fleet.open(0)
    assert not fleet.root.exists()


def test_one_node_may_live_at_a_loopback_address(fleet: Fleet) -> None:
    fleet.settings = replace(FAST, allow_loopback=False, min_nodes=1, max_nodes=1, expected_nodes=1)
    alone = fleet.open(0)
    alone.join()

    started([alone])


def test_the_port_of_the_master_is_free_once_the_round_has_started(fleet: Fleet) -> None:
    current = fleet.form(2)[0].standing().round
    assert current is not None

    with socket.socket() as master:
        master.bind(("", current.master_port))


def test_what_belongs_to_a_round_is_refused_before_there_is_one(fleet: Fleet) -> None:
    member = fleet.open(0)

    with pytest.raises(RendezvousStateError, match="no round of node"):
        member.end_round(Cause.DRAIN)
    with pytest.raises(RendezvousStateError, match="no round of node"):
        member.mark_done()


def test_the_descriptor_is_readable_when_the_standing_has_changed(fleet: Fleet) -> None:
    fleet.settings = replace(FAST, min_nodes=1, expected_nodes=1)
    member = fleet.open(0)
    member.join()
    started([member])
    assert has_news(member, TIME_S)

    def is_quiet() -> bool:
        member.acknowledge()
        return not has_news(member, 0.5)

    wait_until(is_quiet, TIME_S, "all is told")  # the mark of a change is left after the change shows
    assert not has_news(member, 0)

    member.request_drain(Reason.USER, LONG_S, everybody=False)

    assert has_news(member, TIME_S)


def has_news(member: Membership, within_s: float) -> bool:
    return bool(select.select([member.fileno()], [], [], within_s)[0])


def test_a_node_that_leaves_without_a_drain_ends_the_round_for_the_others(fleet: Fleet) -> None:
    first, *rest = fleet.form(3)
    first.leave(Outcome.UNSAVED, "told to", TIME_S)
    each(rest, lambda member: member.standing().end, "the end is seen")
    for member in rest:
        member.join()
    started(rest, 2)

    assert settled(fleet, 1) is Cause.MEMBER_LEFT


def test_a_closed_run_is_told_to_all(fleet: Fleet) -> None:
    members = fleet.form(2)
    members[1].close_run(7, "told to stop")

    each(members, lambda member: member.standing().closed, "the closing is seen")
    closed = members[0].standing().closed
    assert closed is not None
    assert (closed.succeeded, closed.exit_code, closed.message) == (False, 7, "told to stop")
