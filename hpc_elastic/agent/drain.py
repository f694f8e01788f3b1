"""What the agent does about notices, drains and the end of its workers: pure functions."""

from __future__ import annotations

from hpc_elastic.agent import leaving
from hpc_elastic.agent.actions import (
    AskSource,
    EndRound,
    Join,
    MarkDone,
    PassStopStep,
    ReportStep,
    StopWorkers,
    WarnWorkers,
)
from hpc_elastic.agent.inputs import (
    DeadlineOver,
    DrainSeen,
    How,
    Insisted,
    NoticeSeen,
    NoticeUnanswered,
    RecordFailed,
    RoundEnded,
    RunClosed,
    StepDue,
    StopKnown,
    WorkerEnd,
    WorkersGone,
)
from hpc_elastic.agent.state import (
    ANSWER_S,
    STEP_SETTLE_S,
    Agent,
    Phase,
    Step,
    StopOrder,
    margin_s,
)
from hpc_elastic.rendezvous.record import Cause, Reason
from hpc_elastic.values import replace

_LOST = (Cause.MEMBER_LOST, Cause.NEWER_ATTEMPT)


def begin(agent: Agent, order: StopOrder, now_s: float) -> Step:
    """Tell the workers to save and to stop; if they are gone already, settle at once."""
    agent = replace(agent, order=order, suspect=None)
    if agent.ends is not None:
        return settle(agent, explained(agent.ends) if order.leaving else agent.ends)
    agent = replace(agent, phase=Phase.DRAINING).with_timer(StepDue, now_s + STEP_SETTLE_S)
    return warn(agent, order, now_s)


def warn(agent: Agent, order: StopOrder, now_s: float) -> Step:
    """Pass the deadline on, and see to it that everything is over before it."""
    spare_s = margin_s(order.deadline_s - now_s)
    agent = replace(agent, order=order).with_timer(DeadlineOver, order.deadline_s - 2 * spare_s)
    return Step(agent, (WarnWorkers(order.reason, order.deadline_s - 2 * spare_s),))


def explained(ends: tuple[WorkerEnd, ...]) -> tuple[WorkerEnd, ...]:
    """The ends of workers that were in doubt, now that a notice is known: plain ones have saved."""
    return tuple(replace(end, how=How.SAVED) if end.how is How.DONE and end.is_plain else end for end in ends)


def settle(agent: Agent, ends: tuple[WorkerEnd, ...]) -> Step:
    """All workers are gone: done, saved, or neither; leave or join again."""
    if ends and all(end.how is How.DONE for end in ends):
        agent = replace(agent, phase=Phase.FINISHED, ends=ends).without_timer(StepDue)
        return Step(agent if agent.must_leave else agent.without_timer(DeadlineOver), (MarkDone(),))
    return settle_ended(agent, ends)


def settle_ended(agent: Agent, ends: tuple[WorkerEnd, ...]) -> Step:
    """All workers are gone and the round is not done on this node: leave, or join again."""
    order = agent.order
    if agent.lost is not None:
        return Step(gone(agent), (leaving.by_ends(agent.lost, ends),))
    if agent.must_leave:
        last = leaving.after_saving(ends, reason(agent))
        return Step(gone(agent), (EndRound(_cause(order), last.message), last))
    if order is None:
        return Step(joining(agent), (Join(),))  # the round has its end already: it is why we stopped
    return Step(joining(agent), (EndRound(_cause(order)), Join()))


def gone(agent: Agent) -> Agent:
    """The same, with nothing left to do."""
    return replace(agent, phase=Phase.GONE, timers=())


def reason(agent: Agent) -> str:
    """Why this node has to stop, in words."""
    if agent.order is not None and agent.order.leaving:
        return agent.order.reason.in_words
    return Reason.UNKNOWN.in_words if agent.heard is None else agent.heard.reason.in_words


def joining(agent: Agent) -> Agent:
    """The same, on its way to the next round: what belonged to the last one is forgotten."""
    return Agent(shutdown_timeout_s=agent.shutdown_timeout_s, heard=agent.heard)


def _cause(order: StopOrder | None) -> Cause:
    joins = order is not None and order.reason is Reason.MEMBERSHIP
    return Cause.MEMBERS_JOINING if joins else Cause.DRAIN


# running -> draining


def asked(given: NoticeSeen) -> tuple[AskSource, ...]:
    """The order to ask the scheduler, where our word became the record."""
    return (AskSource(),) if given.ask else ()


def drain(agent: Agent, given: DrainSeen, now_s: float) -> Step:
    """Begin the drain of the record."""
    order = _merged(agent, given)
    return begin(agent.without_timer(NoticeUnanswered), order, now_s)


def _merged(agent: Agent, given: DrainSeen) -> StopOrder:
    """The drain, unless a notice stands: that one has the better deadline, and means to leave."""
    if agent.order is not None and agent.order.leaving:
        return agent.order
    return StopOrder(given.reason, given.deadline_s, given.leaving)


def ordered(given: NoticeSeen) -> StopOrder:
    """What a notice that concerns this node asks of it."""
    return StopOrder(given.reason, given.deadline_s, leaving=True)


def expect_drain(agent: Agent, given: NoticeSeen, now_s: float) -> Step:
    """Keep the notice in mind; the drain of the round follows it in the record."""
    agent = replace(agent, order=ordered(given)).with_timer(NoticeUnanswered, now_s + ANSWER_S)
    if agent.ends is not None:
        step = settle(agent, explained(agent.ends))
        return Step(step.agent, (*asked(given), *step.actions))
    return Step(agent, asked(given))


def drain_alone(agent: Agent, given: NoticeUnanswered, now_s: float) -> Step:
    """The record does not answer: save without it, each rank at its own step."""
    return begin(agent, agent.order or _own_order(agent, now_s), now_s)


def _own_order(agent: Agent, now_s: float) -> StopOrder:
    heard = agent.heard
    left_s = agent.shutdown_timeout_s if heard is None else heard.seconds_left - ANSWER_S
    why = Reason.UNKNOWN if heard is None else heard.reason
    return StopOrder(why, now_s + max(left_s, 1.0), leaving=True)


# draining


def follow_drain(agent: Agent, given: DrainSeen, now_s: float) -> Step:
    """The record has the drain after all: report our step to it."""
    order = _merged(agent, given)
    return Step(replace(agent, order=order).with_timer(StepDue, now_s + STEP_SETTLE_S))


def adopt_notice(agent: Agent, given: NoticeSeen, now_s: float) -> Step:
    """Take over the reason and the deadline, and leave afterwards."""
    step = warn(agent.without_timer(NoticeUnanswered), ordered(given), now_s)
    return Step(step.agent, (*asked(given), *step.actions))


def adopt_own(agent: Agent, given: NoticeUnanswered, now_s: float) -> Step:
    """The record does not answer: what we heard ourselves counts."""
    if agent.order is not None and agent.order.leaving:
        return Step(agent)
    return warn(agent, _own_order(agent, now_s), now_s)


def report_step(agent: Agent, given: StepDue, now_s: float) -> Step:
    """Everybody who has not seen the flag has written its step by now."""
    return Step(agent, (ReportStep(),))


def pass_step(agent: Agent, given: StopKnown, now_s: float) -> Step:
    """Tell our ranks where to stop."""
    return Step(agent, (PassStopStep(given.step),))


def end_of_drained(agent: Agent, given: RoundEnded, now_s: float) -> Step:
    """Let our workers save on; only a round that is broken and not left for good ends now."""
    stays = agent.order is None or not agent.order.leaving
    if stays and (given.cause.is_failure or given.cause in _LOST):
        return stop(agent, now_s + agent.shutdown_timeout_s)
    return Step(agent)


def settle_gone(agent: Agent, given: WorkersGone, now_s: float) -> Step:
    """All workers are gone."""
    return settle(agent, given.ends)


def end_unsaved(agent: Agent, given: DeadlineOver, now_s: float) -> Step:
    """Stop what has not saved, early enough to write down how it ended."""
    order = agent.order
    left_s = 0.0 if order is None else max(0.0, order.deadline_s - now_s)
    return stop(replace(agent, goal=agent.lost), now_s + left_s / 2)


def remember_loss(agent: Agent, given: RecordFailed, now_s: float) -> Step:
    """Workers that are saving do not need the record."""
    return Step(replace(agent, lost=leaving.record_failed(given)))


# any phase with workers -> stopping


def stop(agent: Agent, kill_at_s: float) -> Step:
    """End all workers; then follow the goal, or join again."""
    if agent.ends is not None:  # their fate was in doubt, but they are gone
        return after_stop(agent, agent.ends)
    agent = replace(agent, phase=Phase.STOPPING, timers=(), suspect=None)
    return Step(agent, (StopWorkers(kill_at_s),))


def after_stop(agent: Agent, ends: tuple[WorkerEnd, ...]) -> Step:
    """Leave if there is a reason to, else join the next round."""
    if agent.goal is not None:
        goal = leaving.by_ends(agent.goal, ends)
        return Step(gone(agent), (EndRound(Cause.DRAIN, goal.message), goal))
    return settle_ended(agent, ends)


def stop_closed(agent: Agent, given: RunClosed, now_s: float) -> Step:
    """The run is over although our workers still run."""
    goal = leaving.closed(given)
    return stop(replace(agent, goal=goal), now_s + agent.shutdown_timeout_s)


def stop_now(agent: Agent, given: Insisted, now_s: float) -> Step:
    """A person does not want to wait for the workers."""
    return stop(replace(agent, goal=leaving.cut_short("Ctrl-C, twice")), now_s)
