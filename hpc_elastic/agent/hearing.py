"""What the agent does about the signals it hears: pure functions, named in the table of `machine.py`."""

from __future__ import annotations

from hpc_elastic.agent import drain
from hpc_elastic.agent.actions import Announce, BetterNotice
from hpc_elastic.agent.inputs import NoticeUnanswered, SignalHeard, SourceAnswered
from hpc_elastic.agent.notices import Kind
from hpc_elastic.agent.state import ANSWER_S, Agent, Phase, Step
from hpc_elastic.values import replace


def announce(agent: Agent, given: SignalHeard, now_s: float) -> Step:
    """Put the first notice into the record; an order to end shortens a notice heard before."""
    if agent.heard is None:
        agent = replace(agent, heard=given.heard)
        if agent.order is not None and agent.order.leaving:
            return Step(agent)  # the record has told us before Slurm did
        return Step(agent.with_timer(NoticeUnanswered, now_s + ANSWER_S), (Announce(given.heard),))
    if agent.heard.kind is Kind.NOTICE and given.heard.kind is Kind.TERMINATE:
        return _shorten(replace(agent, heard=given.heard), given, now_s)
    return Step(agent)  # Slurm sends TERM more than once


def _shorten(agent: Agent, given: SignalHeard, now_s: float) -> Step:
    deadline_s = now_s + given.heard.seconds_left
    if agent.phase is not Phase.DRAINING or agent.order is None or agent.order.deadline_s <= deadline_s:
        return Step(agent)
    return drain.warn(agent, replace(agent.order, deadline_s=deadline_s), now_s)


def better(agent: Agent, given: SourceAnswered, now_s: float) -> Step:
    """Pass the scheduler's answer on to everybody."""
    if given.bettered is None:
        return Step(agent)
    return Step(agent, (BetterNotice(given.bettered, agent.heard),))
