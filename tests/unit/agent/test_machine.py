"""The agent's machine: every cell of its table is visited, every missing cell raises with both names."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

import pytest

from hpc_elastic.agent import machine
from hpc_elastic.agent.actions import (
    Announce,
    AskSource,
    BetterNotice,
    EndRound,
    Join,
    Leave,
    MarkDone,
    PassStopStep,
    ReportStep,
    StartWorkers,
    StopWorkers,
    WarnWorkers,
)
from hpc_elastic.agent.inputs import (
    DeadlineOver,
    DoubtOver,
    DrainSeen,
    HealthFailed,
    How,
    Input,
    Insisted,
    NoticeSeen,
    NoticeUnanswered,
    RecordFailed,
    RoundEnded,
    RoundMissed,
    RoundStarted,
    RunClosed,
    SignalHeard,
    SourceAnswered,
    StartFailed,
    StepDue,
    StopKnown,
    WorkerEnd,
    WorkerFailed,
    WorkersGone,
    WorkersStuck,
)
from hpc_elastic.agent.notices import Bettered, Heard, Kind
from hpc_elastic.agent.state import Agent, Phase, StopOrder
from hpc_elastic.rendezvous.record import Cause, Reason, Scope

NOW_S: Final = 1000.0
NOTICE: Final = Heard(Kind.NOTICE, "SIGUSR2", Reason.PREEMPTED, Scope.RUN, 60.0)
TERM: Final = Heard(Kind.TERMINATE, "SIGTERM", Reason.UNKNOWN, Scope.RUN, 30.0)
GO: Final = StopOrder(Reason.PREEMPTED, NOW_S + 20, leaving=True)
MEMBERSHIP: Final = StopOrder(Reason.MEMBERSHIP, NOW_S + 20, leaving=False)


def agent(phase: Phase, **changes: Any) -> Agent:
    return replace(Agent(shutdown_timeout_s=30.0, phase=phase), **changes)


def ended(how: How, returncode: int = 0, rank: int = 3, saved_step: int = -1) -> WorkerEnd:
    return WorkerEnd(0, rank, returncode, how, "why", saved_step=saved_step)


FAILED: Final = ended(How.FAILED, 1)
OF_TERM: Final = ended(How.FAILED, -15)
DONE: Final = WorkersGone((ended(How.DONE), ended(How.DONE)))
SAVED: Final = WorkersGone((ended(How.SAVED, saved_step=7),))
BROKEN: Final = WorkersGone((FAILED,))
STUCK: Final = WorkersStuck("killed, but still there: x (pid 1, state D)")
CLOSED: Final = RunClosed(True, 0, "all ranks are done")
GAVE_UP: Final = RunClosed(False, 42, "rank 3 failed")
LOST: Final = RecordFailed(84, "the record is gone")
OVERTAKEN: Final = RecordFailed(80, "attempt 2 has taken over")
TO_GO: Final = DrainSeen(Reason.PREEMPTED, NOW_S + 20, leaving=True)
TO_STAY: Final = DrainSeen(Reason.MEMBERSHIP, NOW_S + 20, leaving=False)
NOTICED: Final = NoticeSeen(Reason.PREEMPTED, NOW_S + 20, ask=False)
OURS: Final = NoticeSeen(Reason.UNKNOWN, NOW_S + 30, ask=True)
ANSWER: Final = SourceAnswered(Bettered(Reason.PREEMPTED, 18.0))
FAILURE: Final = RoundEnded(Cause.WORKER_FAILED, "")
SUCCESS: Final = RoundEnded(Cause.SUCCESS, "")


@dataclass(frozen=True)
class Case:
    """What an input leads to: the phase afterwards, and the kinds of the actions in their order."""

    before: Agent
    given: Input
    phase: Phase
    actions: tuple[type, ...] = ()


JOINING: Final = agent(Phase.JOINING)
RUNNING: Final = agent(Phase.RUNNING)
DRAINING: Final = agent(Phase.DRAINING, order=GO)
MAKING_ROOM: Final = agent(Phase.DRAINING, order=MEMBERSHIP)
STOPPING: Final = agent(Phase.STOPPING)
FINISHED: Final = agent(Phase.FINISHED)

CASES: Final = (
    Case(JOINING, RoundStarted(1), Phase.RUNNING, (StartWorkers,)),
    Case(replace(JOINING, heard=TERM), RoundStarted(1), Phase.GONE, (EndRound, Leave)),
    Case(JOINING, RoundMissed(1, ended=True, leaving=False), Phase.JOINING, (Join,)),
    Case(JOINING, RoundMissed(1, ended=False, leaving=True), Phase.GONE, (ReportStep, EndRound, Leave)),
    Case(JOINING, RoundMissed(1, ended=False, leaving=False), Phase.JOINING, (ReportStep, EndRound, Join)),
    Case(JOINING, TO_GO, Phase.GONE, (Leave,)),
    Case(JOINING, TO_STAY, Phase.JOINING),
    Case(JOINING, NOTICED, Phase.GONE, (Leave,)),
    Case(JOINING, OURS, Phase.GONE, (AskSource, Leave)),
    Case(JOINING, StopKnown(5), Phase.JOINING),
    Case(JOINING, FAILURE, Phase.JOINING),
    Case(JOINING, CLOSED, Phase.GONE, (Leave,)),
    Case(JOINING, HealthFailed("it did not end"), Phase.GONE, (Leave,)),
    Case(JOINING, GAVE_UP, Phase.GONE, (Leave,)),
    Case(JOINING, LOST, Phase.GONE, (Leave,)),
    Case(JOINING, SignalHeard(TERM), Phase.JOINING, (Announce,)),
    Case(JOINING, Insisted(), Phase.GONE, (Leave,)),
    Case(JOINING, ANSWER, Phase.JOINING, (BetterNotice,)),
    Case(JOINING, NoticeUnanswered(), Phase.GONE, (Leave,)),
    #
    Case(RUNNING, TO_GO, Phase.DRAINING, (WarnWorkers,)),
    Case(RUNNING, TO_STAY, Phase.DRAINING, (WarnWorkers,)),
    Case(RUNNING, NOTICED, Phase.RUNNING),
    Case(RUNNING, OURS, Phase.RUNNING, (AskSource,)),
    Case(replace(RUNNING, ends=(OF_TERM,)), NOTICED, Phase.GONE, (EndRound, Leave)),
    Case(RUNNING, FAILURE, Phase.STOPPING, (StopWorkers,)),
    Case(replace(RUNNING, order=GO), FAILURE, Phase.DRAINING, (WarnWorkers,)),
    Case(RUNNING, GAVE_UP, Phase.STOPPING, (StopWorkers,)),
    Case(RUNNING, LOST, Phase.STOPPING, (StopWorkers,)),
    Case(RUNNING, SignalHeard(NOTICE), Phase.RUNNING, (Announce,)),
    Case(replace(RUNNING, heard=TERM), SignalHeard(TERM), Phase.RUNNING),
    Case(replace(RUNNING, order=GO), SignalHeard(TERM), Phase.RUNNING),
    Case(RUNNING, Insisted(), Phase.STOPPING, (StopWorkers,)),
    Case(RUNNING, ANSWER, Phase.RUNNING, (BetterNotice,)),
    Case(RUNNING, StartFailed("no such file"), Phase.STOPPING, (EndRound, StopWorkers)),
    Case(RUNNING, WorkerFailed(FAILED), Phase.STOPPING, (EndRound, StopWorkers)),
    Case(RUNNING, WorkerFailed(OF_TERM), Phase.RUNNING),
    Case(replace(RUNNING, heard=TERM), WorkerFailed(FAILED), Phase.RUNNING),
    Case(RUNNING, DONE, Phase.FINISHED, (MarkDone,)),
    Case(RUNNING, BROKEN, Phase.RUNNING),
    Case(replace(RUNNING, order=GO), BROKEN, Phase.GONE, (EndRound, Leave)),
    Case(RUNNING, STUCK, Phase.GONE, (Leave,)),
    Case(replace(RUNNING, suspect=OF_TERM), DoubtOver(), Phase.STOPPING, (EndRound, StopWorkers)),
    Case(replace(RUNNING, suspect=OF_TERM, heard=TERM), DoubtOver(), Phase.RUNNING),
    Case(replace(RUNNING, heard=TERM), NoticeUnanswered(), Phase.DRAINING, (WarnWorkers,)),
    #
    Case(DRAINING, TO_GO, Phase.DRAINING),
    Case(MAKING_ROOM, NOTICED, Phase.DRAINING, (WarnWorkers,)),
    Case(DRAINING, OURS, Phase.DRAINING, (AskSource, WarnWorkers)),
    Case(DRAINING, StopKnown(5), Phase.DRAINING, (PassStopStep,)),
    Case(DRAINING, FAILURE, Phase.DRAINING),
    Case(MAKING_ROOM, RoundEnded(Cause.MEMBERS_JOINING, ""), Phase.DRAINING),
    Case(MAKING_ROOM, FAILURE, Phase.STOPPING, (StopWorkers,)),
    Case(DRAINING, GAVE_UP, Phase.STOPPING, (StopWorkers,)),
    Case(DRAINING, LOST, Phase.DRAINING),
    Case(DRAINING, SignalHeard(TERM), Phase.DRAINING),
    Case(MAKING_ROOM, SignalHeard(TERM), Phase.DRAINING, (Announce,)),
    Case(DRAINING, Insisted(), Phase.STOPPING, (StopWorkers,)),
    Case(DRAINING, ANSWER, Phase.DRAINING, (BetterNotice,)),
    Case(DRAINING, SourceAnswered(None), Phase.DRAINING),
    Case(DRAINING, WorkerFailed(FAILED), Phase.DRAINING),
    Case(DRAINING, SAVED, Phase.GONE, (EndRound, Leave)),
    Case(DRAINING, BROKEN, Phase.GONE, (EndRound, Leave)),
    Case(DRAINING, DONE, Phase.FINISHED, (MarkDone,)),
    Case(MAKING_ROOM, SAVED, Phase.JOINING, (EndRound, Join)),
    Case(DRAINING, STUCK, Phase.GONE, (Leave,)),
    Case(DRAINING, StepDue(), Phase.DRAINING, (ReportStep,)),
    Case(DRAINING, DeadlineOver(), Phase.STOPPING, (StopWorkers,)),
    Case(MAKING_ROOM, DeadlineOver(), Phase.STOPPING, (StopWorkers,)),
    Case(DRAINING, DoubtOver(), Phase.DRAINING),
    Case(DRAINING, NoticeUnanswered(), Phase.DRAINING),
    Case(replace(MAKING_ROOM, heard=TERM), NoticeUnanswered(), Phase.DRAINING, (WarnWorkers,)),
    #
    Case(STOPPING, TO_GO, Phase.STOPPING),
    Case(STOPPING, OURS, Phase.STOPPING, (AskSource,)),
    Case(STOPPING, StopKnown(5), Phase.STOPPING),
    Case(STOPPING, FAILURE, Phase.STOPPING),
    Case(STOPPING, GAVE_UP, Phase.STOPPING),
    Case(STOPPING, LOST, Phase.STOPPING),
    Case(STOPPING, SignalHeard(TERM), Phase.STOPPING, (Announce,)),
    Case(STOPPING, Insisted(), Phase.STOPPING, (StopWorkers,)),
    Case(STOPPING, ANSWER, Phase.STOPPING, (BetterNotice,)),
    Case(STOPPING, WorkerFailed(OF_TERM), Phase.STOPPING),
    Case(STOPPING, BROKEN, Phase.JOINING, (Join,)),
    Case(replace(STOPPING, order=GO), BROKEN, Phase.GONE, (EndRound, Leave)),
    Case(replace(STOPPING, order=MEMBERSHIP), BROKEN, Phase.JOINING, (EndRound, Join)),
    Case(STOPPING, STUCK, Phase.GONE, (Leave,)),
    Case(STOPPING, NoticeUnanswered(), Phase.STOPPING),
    #
    Case(FINISHED, TO_GO, Phase.FINISHED, (ReportStep,)),
    Case(FINISHED, TO_STAY, Phase.FINISHED, (ReportStep,)),
    Case(FINISHED, OURS, Phase.FINISHED, (AskSource,)),
    Case(FINISHED, StopKnown(5), Phase.FINISHED),
    Case(FINISHED, SUCCESS, Phase.FINISHED),
    Case(FINISHED, FAILURE, Phase.JOINING, (Join,)),
    Case(replace(FINISHED, order=GO), RoundEnded(Cause.DRAIN, ""), Phase.GONE, (Leave,)),
    Case(FINISHED, CLOSED, Phase.GONE, (Leave,)),
    Case(FINISHED, LOST, Phase.GONE, (Leave,)),
    Case(FINISHED, SignalHeard(TERM), Phase.FINISHED, (Announce,)),
    Case(FINISHED, Insisted(), Phase.GONE, (Leave,)),
    Case(FINISHED, ANSWER, Phase.FINISHED, (BetterNotice,)),
    Case(FINISHED, NoticeUnanswered(), Phase.GONE, (Leave,)),
    Case(FINISHED, DeadlineOver(), Phase.GONE, (Leave,)),
)

EVERY_INPUT: Final[tuple[Input, ...]] = (
    RoundStarted(1), RoundMissed(1, True, False), TO_GO, NOTICED, StopKnown(5), FAILURE, CLOSED, LOST,
    SignalHeard(TERM), Insisted(), ANSWER, StartFailed("x"), WorkerFailed(FAILED), DONE, STUCK,
    HealthFailed("x"), StepDue(), DeadlineOver(), DoubtOver(), NoticeUnanswered(),
)  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c.before.phase.value}-{type(c.given).__name__}")
def test_an_input_leads_to_the_phase_and_the_actions_of_its_cell(case: Case) -> None:
    step = machine.step(case.before, case.given, NOW_S)

    assert step.agent.phase is case.phase
    assert tuple(type(action) for action in step.actions) == case.actions


def test_every_cell_of_the_table_is_visited() -> None:
    visited = {(case.before.phase, type(case.given)) for case in CASES}

    assert visited == set(machine.RULES)


def test_every_missing_cell_raises_with_both_names() -> None:
    missing = [
        (phase, given)
        for phase in Phase
        for given in EVERY_INPUT
        if (phase, type(given)) not in machine.RULES
    ]
    assert len(missing) + len(machine.RULES) == len(Phase) * len(EVERY_INPUT)

    for phase, given in missing:
        with pytest.raises(machine.UnexpectedInput, match=f"{type(given).__name__} .*{phase.value}"):
            machine.step(agent(phase), given, NOW_S)


def test_a_timed_input_is_not_due_again_once_it_was_given() -> None:
    waiting = DRAINING.with_timer(StepDue, NOW_S)
    assert waiting.due(NOW_S) == StepDue()

    assert machine.step(waiting, StepDue(), NOW_S).agent.due(NOW_S) is None


@pytest.mark.parametrize(
    ("before", "gone", "code"),
    [(RUNNING, BROKEN, 81), (RUNNING, SAVED, 80), (DRAINING, BROKEN, 81), (DRAINING, SAVED, 80)],
)
def test_an_agent_whose_run_was_taken_over_says_saved_only_of_workers_that_saved(
    before: Agent, gone: WorkersGone, code: int
) -> None:
    overtaken = machine.step(before, OVERTAKEN, NOW_S).agent

    leave = machine.step(overtaken, gone, NOW_S).actions[-1]

    assert isinstance(leave, Leave)
    assert leave.exit_code == code
    assert ("its workers had not saved" in leave.message) is (code == 81)
