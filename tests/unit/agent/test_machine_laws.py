"""What the agent's machine promises across its cells."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest

from hpc_elastic.agent import machine
from hpc_elastic.agent.actions import Action, EndRound, Join, Leave, MarkDone, StopWorkers, WarnWorkers
from hpc_elastic.agent.inputs import (
    DeadlineOver,
    DoubtOver,
    HealthFailed,
    How,
    Input,
    Insisted,
    NoticeSeen,
    NoticeUnanswered,
    RecordFailed,
    RoundEnded,
    RunClosed,
    SignalHeard,
    StartFailed,
    StepDue,
    WorkerEnd,
    WorkerFailed,
    WorkersGone,
    judge,
)
from hpc_elastic.agent.state import ANSWER_S, STEP_SETTLE_S, Agent, Phase, Step, margin_s
from hpc_elastic.rendezvous.record import Cause, Outcome, Reason
from tests.unit.agent.test_machine import (
    DONE,
    DRAINING,
    FAILED,
    FINISHED,
    GO,
    JOINING,
    MAKING_ROOM,
    NOTICE,
    NOW_S,
    OF_TERM,
    RUNNING,
    SAVED,
    STOPPING,
    TERM,
    TO_GO,
    TO_STAY,
    ended,
)

PLAIN_END: Final = WorkersGone((replace(ended(How.DONE), is_plain=True),))


def told(agent: Agent, *inputs: Input, now_s: float = NOW_S) -> Step:
    """The last step of several inputs, with the actions of all."""
    actions: list[Action] = []
    for given in inputs:
        step = machine.step(agent, given, now_s)
        agent = step.agent
        actions += step.actions
    return Step(agent, tuple(actions))


def last_leave(step: Step) -> Leave:
    leave = step.actions[-1]
    assert isinstance(leave, Leave)
    return leave


def test_the_cause_of_a_failure_is_reported_before_its_siblings_are_stopped() -> None:
    step = told(RUNNING, WorkerFailed(FAILED))

    assert step.actions == (EndRound(Cause.WORKER_FAILED, "why", FAILED), StopWorkers(NOW_S + 30.0))


def test_a_worker_that_the_agent_had_to_end_ends_the_round_under_its_own_cause() -> None:
    hung = replace(ended(How.FAILED, -9), cause=Cause.NO_PROGRESS)

    step = told(RUNNING, WorkerFailed(hung))

    assert step.actions == (EndRound(Cause.NO_PROGRESS, "why", hung), StopWorkers(NOW_S + 30.0))


def test_a_health_command_that_was_ended_by_a_notice_says_nothing_about_the_node() -> None:
    unwell = HealthFailed("killed by SIGTERM (signal 15)")

    assert last_leave(told(JOINING, unwell)).exit_code == 83
    assert last_leave(told(JOINING, SignalHeard(TERM), unwell)).exit_code == 80


def test_a_worker_that_died_of_the_signal_to_the_whole_step_is_no_failure() -> None:
    step = told(RUNNING, WorkerFailed(OF_TERM), WorkersGone((OF_TERM,)), SignalHeard(TERM), TO_GO)

    assert last_leave(step).outcome is Outcome.UNSAVED
    assert not any(isinstance(action, EndRound) and action.worker for action in step.actions)


def test_a_worker_that_died_of_term_without_a_notice_is_a_failure_after_the_doubt() -> None:
    step = told(RUNNING, WorkerFailed(OF_TERM), WorkersGone((OF_TERM,)), DoubtOver())

    assert step.actions == (EndRound(Cause.WORKER_FAILED, "why", OF_TERM), Join())


def test_a_plain_worker_that_ends_well_is_done_only_when_no_notice_explains_it() -> None:
    doubted = told(RUNNING, PLAIN_END)
    assert doubted.actions == ()

    done = told(doubted.agent, DoubtOver())
    saved = told(doubted.agent, SignalHeard(TERM), NoticeSeen(Reason.UNKNOWN, NOW_S + 30, ask=False))

    assert done.actions == (MarkDone(),)
    assert last_leave(saved).outcome is Outcome.SAVED


def test_a_plain_worker_that_ended_just_before_newcomers_were_let_in_is_done() -> None:
    assert told(told(RUNNING, PLAIN_END).agent, TO_STAY).actions == (MarkDone(),)


@pytest.mark.parametrize(
    "given",
    [RoundEnded(Cause.MEMBER_LOST, ""), RunClosed(False, 42, ""), RecordFailed(84, "gone"), Insisted()],
)
def test_nobody_waits_for_workers_that_are_gone_already(given: Input) -> None:
    step = told(RUNNING, WorkersGone((OF_TERM,)), given)

    assert step.agent.phase in (Phase.JOINING, Phase.GONE)


def test_all_saved_leaves_with_80_and_names_the_step() -> None:
    leave = last_leave(told(DRAINING, SAVED))

    assert (leave.outcome, leave.exit_code) == (Outcome.SAVED, 80)
    assert "step 7" in leave.message
    assert "preempted" in leave.message


def test_one_unsaved_rank_makes_the_leave_unsaved_and_is_named() -> None:
    leave = last_leave(told(DRAINING, WorkersGone((ended(How.SAVED, rank=2), ended(How.FAILED, -9, rank=3)))))

    assert (leave.outcome, leave.exit_code) == (Outcome.UNSAVED, 81)
    assert "rank 3" in leave.message


def test_a_rank_that_is_done_while_another_saved_counts_as_saved() -> None:
    leave = last_leave(told(DRAINING, WorkersGone((ended(How.DONE), ended(How.SAVED)))))

    assert leave.outcome is Outcome.SAVED


def test_a_membership_drain_is_followed_by_the_next_round() -> None:
    step = told(MAKING_ROOM, SAVED)

    assert step.actions == (EndRound(Cause.MEMBERS_JOINING), Join())
    assert step.agent == Agent(shutdown_timeout_s=30.0)


def test_a_notice_during_a_membership_drain_makes_the_node_leave_after_the_save() -> None:
    step = told(MAKING_ROOM, NoticeSeen(Reason.TIME_LIMIT, NOW_S + 60, ask=False), SAVED)

    assert last_leave(step).exit_code == 80


def test_the_deadline_of_a_bettered_notice_replaces_the_first() -> None:
    step = told(DRAINING, NoticeSeen(Reason.TIME_LIMIT, NOW_S + 300, ask=False))

    assert step.actions == (WarnWorkers(Reason.TIME_LIMIT, NOW_S + 296.0),)
    assert step.agent.next_due_s() == NOW_S + 296.0


def test_workers_are_stopped_and_killed_before_the_deadline() -> None:
    drained = told(RUNNING, TO_GO).agent
    due_s = NOW_S + 20 - 2 * margin_s(20)
    assert drained.without_timer(StepDue).next_due_s() == due_s

    step = told(drained, DeadlineOver(), now_s=due_s)

    stop = step.actions[0]
    assert isinstance(stop, StopWorkers)
    assert due_s < stop.kill_at_s == NOW_S + 20 - margin_s(20)


def test_the_step_is_reported_only_after_every_rank_must_have_seen_the_flag() -> None:
    drained = told(RUNNING, TO_GO).agent

    assert drained.due(NOW_S + STEP_SETTLE_S - 0.001) is None
    assert drained.due(NOW_S + STEP_SETTLE_S) == StepDue()


def test_without_an_answer_of_the_record_the_workers_save_all_the_same() -> None:
    heard = told(RUNNING, SignalHeard(TERM)).agent
    assert heard.due(NOW_S + ANSWER_S) == NoticeUnanswered()

    step = told(heard, NoticeUnanswered(), now_s=NOW_S + ANSWER_S)

    assert step.agent.phase is Phase.DRAINING
    assert step.agent.order is not None
    assert step.agent.order.deadline_s == NOW_S + TERM.seconds_left


def test_repeated_signals_change_nothing() -> None:
    once = told(RUNNING, SignalHeard(TERM))

    assert told(once.agent, *[SignalHeard(TERM)] * 20) == Step(once.agent)


def test_an_order_to_end_after_a_notice_shortens_the_time() -> None:
    far = replace(GO, deadline_s=NOW_S + 600)
    draining = replace(DRAINING, heard=NOTICE, order=far)

    step = told(draining, SignalHeard(TERM))

    assert step.agent.order is not None
    assert step.agent.order.deadline_s == NOW_S + TERM.seconds_left
    assert isinstance(step.actions[0], WarnWorkers)


def test_a_failure_elsewhere_is_followed_by_the_next_round() -> None:
    step = told(RUNNING, RoundEnded(Cause.MEMBER_LOST, ""), WorkersGone((ended(How.FAILED, -15),)))

    assert step.actions[-1] == Join()


def test_an_end_elsewhere_does_not_disturb_workers_that_save() -> None:
    assert told(DRAINING, RoundEnded(Cause.MEMBER_LOST, ""), WorkerFailed(FAILED)) == Step(DRAINING)


def test_a_spent_budget_ends_the_agent_with_the_status_of_the_closing() -> None:
    leave = last_leave(told(JOINING, RunClosed(False, 42, "rank 3 on n1 failed with exit code 42")))

    assert (leave.outcome, leave.exit_code) == (Outcome.FAILED, 42)
    assert "rank 3" in leave.message


def test_done_on_this_node_does_not_end_the_run_when_a_peer_has_only_saved() -> None:
    step = told(DRAINING, DONE, RoundEnded(Cause.DRAIN, ""))

    assert last_leave(step).exit_code == 80


def test_a_done_node_does_not_leave_at_the_deadline_of_a_membership_drain() -> None:
    draining = MAKING_ROOM.with_timer(DeadlineOver, NOW_S + 16)

    assert told(draining, DONE).agent.next_due_s() is None


def test_workers_that_cannot_be_started_count_as_a_failure() -> None:
    step = told(RUNNING, StartFailed("[Errno 11] out of processes"), WorkersGone(()))

    assert isinstance(step.actions[0], EndRound)
    assert step.actions[0].cause is Cause.WORKER_FAILED
    assert step.actions[-1] == Join()


def test_a_notice_while_workers_are_ended_after_a_failure_makes_the_agent_leave() -> None:
    step = told(STOPPING, NoticeSeen(Reason.PREEMPTED, NOW_S + 20, ask=False), WorkersGone((FAILED,)))

    assert last_leave(step).exit_code == 81


def test_a_notice_while_others_still_work_leaves_them_until_the_deadline() -> None:
    step = told(FINISHED, NoticeSeen(Reason.PREEMPTED, NOW_S + 20, ask=False))

    assert step.agent.next_due_s() == NOW_S + 20


@pytest.mark.parametrize(
    ("returncode", "was_told", "attached", "leaving", "how"),
    [
        (0, False, False, False, How.DONE),
        (0, True, False, False, How.SAVED),
        (0, True, True, False, How.DONE),
        (0, True, True, True, How.SAVED),
        (1, True, True, True, How.FAILED),
        (-15, True, False, False, How.FAILED),
        (-15, True, True, False, How.FAILED),
        (-15, True, True, True, How.SAVED),
        (-9, True, True, True, How.FAILED),
    ],
)
def test_an_exit_means_what_the_contract_says(
    returncode: int, was_told: bool, attached: bool, leaving: bool, how: How
) -> None:
    assert judge(returncode, told=was_told, attached=attached, leaving=leaving) is how


@pytest.mark.parametrize("status", [-15, -2, -1, -10, -12, 143, 130])
def test_ends_by_signals_that_slurm_sends_to_a_step_are_doubted(status: int) -> None:
    end = WorkerEnd(0, 0, status, How.FAILED)

    assert end.may_be_of_a_step_signal


@pytest.mark.parametrize("status", [1, 42, -9, -11, -6, 137])
def test_other_ends_are_failures_at_once(status: int) -> None:
    end = WorkerEnd(0, 0, status, How.FAILED)

    assert not end.may_be_of_a_step_signal
