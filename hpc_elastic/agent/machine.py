"""The agent's machine: one table of what each input means in each phase, and nothing else.

A cell that is missing cannot be reached; being asked for it is a fault of the driver, and raises
with both names. `JOINING` has no workers, so none can end there, and only there a node's health is
asked; timed inputs are missing where nothing sets their time; nothing follows `GONE`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from hpc_elastic.agent import drain, hearing, rules
from hpc_elastic.agent.inputs import (
    DeadlineOver,
    DoubtOver,
    DrainSeen,
    HealthFailed,
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
    Timed,
    WorkerFailed,
    WorkersGone,
    WorkersStuck,
)
from hpc_elastic.agent.state import Agent, Phase, Step
from hpc_elastic.errors import HpcElasticError

Rule = Callable[[Agent, Any, float], Step]


class UnexpectedInput(HpcElasticError):
    """The machine was given an input that cannot occur in its phase."""

    def __init__(self, phase: Phase, given: Input) -> None:
        self.phase, self.given = phase, given
        super().__init__(
            f"agent: {type(given).__name__} cannot occur while {phase.value} ({given}); "
            "this is a fault of hpc-elastic: report it with the run directory's record"
        )


RULES: Final[Mapping[tuple[Phase, type[Input]], Rule]] = {
    (Phase.JOINING, RoundStarted): rules.start_workers,
    (Phase.JOINING, RoundMissed): rules.skip_round,
    (Phase.JOINING, DrainSeen): rules.leave_if_told,
    (Phase.JOINING, NoticeSeen): rules.leave_idle,
    (Phase.JOINING, StopKnown): rules.ignore,  # of the round that we have left
    (Phase.JOINING, RoundEnded): rules.ignore,  # of the round that we have left
    (Phase.JOINING, RunClosed): rules.leave_closed,
    (Phase.JOINING, RecordFailed): rules.leave_lost,
    (Phase.JOINING, SignalHeard): hearing.announce,
    (Phase.JOINING, Insisted): rules.leave_unanswered,
    (Phase.JOINING, SourceAnswered): hearing.better,
    (Phase.JOINING, NoticeUnanswered): rules.leave_unanswered,
    (Phase.JOINING, HealthFailed): rules.leave_unwell,
    #
    (Phase.RUNNING, DrainSeen): drain.drain,
    (Phase.RUNNING, NoticeSeen): drain.expect_drain,
    (Phase.RUNNING, RoundEnded): rules.stop_round,
    (Phase.RUNNING, RunClosed): drain.stop_closed,
    (Phase.RUNNING, RecordFailed): rules.stop_lost,
    (Phase.RUNNING, SignalHeard): hearing.announce,
    (Phase.RUNNING, Insisted): drain.stop_now,
    (Phase.RUNNING, SourceAnswered): hearing.better,
    (Phase.RUNNING, StartFailed): rules.report_start,
    (Phase.RUNNING, WorkerFailed): rules.judge_failure,
    (Phase.RUNNING, WorkersGone): rules.judge_gone,
    (Phase.RUNNING, WorkersStuck): rules.leave_suspect,
    (Phase.RUNNING, DoubtOver): rules.end_doubt,
    (Phase.RUNNING, NoticeUnanswered): drain.drain_alone,
    #
    (Phase.DRAINING, DrainSeen): drain.follow_drain,
    (Phase.DRAINING, NoticeSeen): drain.adopt_notice,
    (Phase.DRAINING, StopKnown): drain.pass_step,
    (Phase.DRAINING, RoundEnded): drain.end_of_drained,
    (Phase.DRAINING, RunClosed): drain.stop_closed,
    (Phase.DRAINING, RecordFailed): drain.remember_loss,
    (Phase.DRAINING, SignalHeard): hearing.announce,
    (Phase.DRAINING, Insisted): drain.stop_now,
    (Phase.DRAINING, SourceAnswered): hearing.better,
    (Phase.DRAINING, WorkerFailed): rules.ignore,  # draining, not failing: its peers save on
    (Phase.DRAINING, WorkersGone): drain.settle_gone,
    (Phase.DRAINING, WorkersStuck): rules.leave_suspect,
    (Phase.DRAINING, StepDue): drain.report_step,
    (Phase.DRAINING, DeadlineOver): drain.end_unsaved,
    (Phase.DRAINING, DoubtOver): rules.end_doubt,
    (Phase.DRAINING, NoticeUnanswered): drain.adopt_own,
    #
    (Phase.STOPPING, DrainSeen): rules.aim_to_leave,
    (Phase.STOPPING, NoticeSeen): rules.aim_to_leave,
    (Phase.STOPPING, StopKnown): rules.ignore,  # too late for our workers
    (Phase.STOPPING, RoundEnded): rules.ignore,  # it is what we are doing
    (Phase.STOPPING, RunClosed): rules.aim_closed,
    (Phase.STOPPING, RecordFailed): rules.aim_lost,
    (Phase.STOPPING, SignalHeard): hearing.announce,
    (Phase.STOPPING, Insisted): rules.kill_now,
    (Phase.STOPPING, SourceAnswered): hearing.better,
    (Phase.STOPPING, WorkerFailed): rules.ignore,  # by our own signal
    (Phase.STOPPING, WorkersGone): rules.follow_goal,
    (Phase.STOPPING, WorkersStuck): rules.leave_suspect,
    (Phase.STOPPING, NoticeUnanswered): rules.ignore,  # we go without the record's answer
    #
    (Phase.FINISHED, DrainSeen): rules.wait_for_savers,
    (Phase.FINISHED, NoticeSeen): rules.wait_until_deadline,
    (Phase.FINISHED, StopKnown): rules.ignore,  # nothing of ours runs
    (Phase.FINISHED, RoundEnded): rules.end_of_finished,
    (Phase.FINISHED, RunClosed): rules.leave_closed,
    (Phase.FINISHED, RecordFailed): rules.leave_lost,
    (Phase.FINISHED, SignalHeard): hearing.announce,
    (Phase.FINISHED, Insisted): rules.leave_unanswered,
    (Phase.FINISHED, SourceAnswered): hearing.better,
    (Phase.FINISHED, NoticeUnanswered): rules.leave_unanswered,
    (Phase.FINISHED, DeadlineOver): rules.leave_unanswered,
}


def step(agent: Agent, given: Input, now_s: float) -> Step:
    """What `agent` becomes and does when it is told `given` at `now_s` of its own clock."""
    rule = RULES.get((agent.phase, type(given)))
    if rule is None:
        raise UnexpectedInput(agent.phase, given)
    if isinstance(given, Timed):
        agent = agent.without_timer(type(given))
    return rule(agent, given, now_s)
