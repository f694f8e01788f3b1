"""What the agent does outside a drain: pure functions, named in the table of `machine.py`."""

from __future__ import annotations

from hpc_elastic.agent import drain, leaving
from hpc_elastic.agent.actions import (
    Action,
    EndRound,
    Join,
    Leave,
    MarkDone,
    ReportStep,
    StartWorkers,
    StopWorkers,
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
    StartFailed,
    WorkerEnd,
    WorkerFailed,
    WorkersGone,
    WorkersStuck,
)
from hpc_elastic.agent.state import DONE_DOUBT_S, DOUBT_S, Agent, Phase, Step, StopOrder
from hpc_elastic.exit_codes import ExitCode
from hpc_elastic.rendezvous.record import Cause, Reason
from hpc_elastic.values import replace


def ignore(agent: Agent, given: Input, now_s: float) -> Step:
    """Nothing to do; the table says why."""
    return Step(agent)


def _go(agent: Agent, goal: Leave, *before: Action) -> Step:
    return Step(drain.gone(agent), (*before, goal))


# joining


def start_workers(agent: Agent, given: RoundStarted, now_s: float) -> Step:
    """Begin the round, unless a notice was heard while it formed."""
    if agent.heard is not None:
        return _go(agent, leaving.idle(drain.reason(agent)), EndRound(Cause.DRAIN))
    return Step(replace(agent, phase=Phase.RUNNING), (StartWorkers(),))


def skip_round(agent: Agent, given: RoundMissed, now_s: float) -> Step:
    """Do not begin what is to stop at once; what we do not start needs no saving."""
    if given.ended:
        return Step(agent, (Join(),))
    if given.leaving:
        return _go(agent, leaving.idle(drain.reason(agent)), ReportStep(), EndRound(Cause.DRAIN))
    return Step(agent, (ReportStep(), EndRound(Cause.MEMBERS_JOINING), Join()))


def leave_if_told(agent: Agent, given: DrainSeen, now_s: float) -> Step:
    """A drain of the round that we have just left: it concerns us if we are to go."""
    return _go(agent, leaving.idle(given.reason.value)) if given.leaving else Step(agent)


def leave_idle(agent: Agent, given: NoticeSeen, now_s: float) -> Step:
    """Nothing runs here: leave at once."""
    if given.reason is Reason.NODE_FAILURE:
        return _go(agent, leaving.too_few())
    return _go(agent, leaving.idle(given.reason.value), *drain.asked(given))


def leave_unanswered(agent: Agent, given: NoticeUnanswered | Insisted | DeadlineOver, now_s: float) -> Step:
    """No worker runs, and nobody will tell us to go: leave."""
    return _go(agent, leaving.idle(drain.reason(agent)))


def leave_closed(agent: Agent, given: RunClosed, now_s: float) -> Step:
    """The run is over, perhaps since long before this start."""
    waited = agent.phase is Phase.JOINING and given.succeeded
    return _go(agent, leaving.done_already() if waited else leaving.closed(given))


def leave_lost(agent: Agent, given: RecordFailed, now_s: float) -> Step:
    """This node can take no further part, and no worker runs."""
    return _go(agent, leaving.record_failed(given))


def leave_unwell(agent: Agent, given: HealthFailed, now_s: float) -> Step:
    """This node is kept out: a run on it would fail, or give what nobody can trust."""
    if agent.must_leave:  # Slurm signals the whole step, and so the health command too
        return _go(agent, leaving.idle(drain.reason(agent)))
    return _go(agent, leaving.unwell(given))


# running


def judge_failure(agent: Agent, given: WorkerFailed, now_s: float) -> Step:
    """A failure ends the round, unless a notice explains it or may yet do so."""
    if agent.must_leave:
        return Step(agent)
    if given.end.may_be_of_a_step_signal:
        # Slurm signals the whole step: the workers may die of it before we have heard it.
        return Step(replace(agent, suspect=given.end).with_timer(DoubtOver, now_s + DOUBT_S))
    return report_failure(agent, given.end, now_s)


def report_failure(agent: Agent, end: WorkerEnd, now_s: float) -> Step:
    """Say first what failed, so that the record has the cause before its consequences."""
    told = EndRound(end.cause, end.message, end)
    step = drain.stop(agent, now_s + agent.shutdown_timeout_s)
    return Step(step.agent, (told, *step.actions))


def end_doubt(agent: Agent, given: DoubtOver, now_s: float) -> Step:
    """No notice came: it was a failure."""
    if agent.must_leave:
        return Step(agent)
    if agent.suspect is not None:
        return report_failure(agent, agent.suspect, now_s)
    return Step(agent) if agent.ends is None else _finish(agent, agent.ends)


def _finish(agent: Agent, ends: tuple[WorkerEnd, ...]) -> Step:
    return Step(replace(agent, phase=Phase.FINISHED, ends=ends), (MarkDone(),))


def judge_gone(agent: Agent, given: WorkersGone, now_s: float) -> Step:
    """No worker runs any more, and nobody had asked them to stop."""
    if agent.order is not None and agent.order.leaving:
        return drain.settle(agent, given.ends)
    agent = replace(agent, ends=given.ends)
    is_done = all(end.how is How.DONE for end in given.ends)
    if any(end.how is How.FAILED for end in given.ends) or (agent.heard is not None and not is_done):
        return Step(agent)  # until the doubt is over, or the notice is read
    if any(end.is_plain for end in given.ends):
        return Step(agent.with_timer(DoubtOver, now_s + DONE_DOUBT_S))
    return _finish(agent, given.ends)


def report_start(agent: Agent, given: StartFailed, now_s: float) -> Step:
    """Workers that cannot be started are workers that failed."""
    end = WorkerEnd(-1, -1, int(ExitCode.FAILED), How.FAILED, given.message)
    return report_failure(agent, end, now_s)


def stop_round(agent: Agent, given: RoundEnded, now_s: float) -> Step:
    """The round is over for a cause elsewhere: end our workers; with a notice, let them save."""
    if agent.order is not None and agent.order.leaving:
        return drain.begin(agent, agent.order, now_s)
    return drain.stop(agent, now_s + agent.shutdown_timeout_s)


def stop_lost(agent: Agent, given: RecordFailed, now_s: float) -> Step:
    """This node can take no further part: end our workers."""
    goal = leaving.record_failed(given)
    return drain.stop(replace(agent, goal=goal), now_s + agent.shutdown_timeout_s)


# stopping


def follow_goal(agent: Agent, given: WorkersGone, now_s: float) -> Step:
    """The workers are gone: leave if there is a reason to, else join the next round."""
    return drain.after_stop(agent, given.ends)


def aim_to_leave(agent: Agent, given: NoticeSeen | DrainSeen, now_s: float) -> Step:
    """Go instead of joining again; the workers are being ended already."""
    if isinstance(given, NoticeSeen):
        return Step(replace(agent, order=drain.ordered(given)), drain.asked(given))
    if not given.leaving:
        return Step(agent)
    order = StopOrder(given.reason, given.deadline_s, leaving=True)
    return Step(replace(agent, order=order))


def aim_closed(agent: Agent, given: RunClosed, now_s: float) -> Step:
    """The run is over: go once the workers are gone."""
    return Step(replace(agent, goal=leaving.closed(given)))


def aim_lost(agent: Agent, given: RecordFailed, now_s: float) -> Step:
    """This node can take no further part: go once the workers are gone."""
    return Step(replace(agent, goal=leaving.record_failed(given)))


def leave_suspect(agent: Agent, given: WorkersStuck, now_s: float) -> Step:
    """A process does not die: this node must not run another round."""
    return _go(agent, leaving.suspect(given))


def kill_now(agent: Agent, given: Insisted, now_s: float) -> Step:
    """A person does not want to wait."""
    goal = agent.goal or leaving.cut_short("Ctrl-C, twice")
    return Step(replace(agent, goal=goal), (StopWorkers(now_s),))


# finished


def end_of_finished(agent: Agent, given: RoundEnded, now_s: float) -> Step:
    """A peer did not finish: its node's cause decides for all."""
    if given.cause is Cause.SUCCESS:
        return Step(agent)  # the closing follows
    if agent.must_leave:
        return _go(agent, leaving.idle(drain.reason(agent)))
    return Step(drain.joining(agent), (Join(),))


def wait_for_savers(agent: Agent, given: DrainSeen, now_s: float) -> Step:
    """We have nothing to save; peers need our word to agree on a step."""
    if given.leaving:
        order = StopOrder(given.reason, given.deadline_s, leaving=True)
        agent = replace(agent, order=order).with_timer(DeadlineOver, given.deadline_s)
    return Step(agent.without_timer(NoticeUnanswered), (ReportStep(),))


def wait_until_deadline(agent: Agent, given: NoticeSeen, now_s: float) -> Step:
    """Stay for the peers until the deadline: the run may yet be done."""
    agent = replace(agent, order=drain.ordered(given)).with_timer(DeadlineOver, given.deadline_s)
    return Step(agent.without_timer(NoticeUnanswered), drain.asked(given))
