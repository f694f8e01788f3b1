"""The decisions of one node: (what it has seen, its own time) in, actions out. No I/O, clock or chance.

`RULES` is the machine: for each phase the rules that may act in it, the most pressing first. The
first rule that asks for something is carried out, then everything is looked at again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from hpc_elastic.errors import RendezvousError, RendezvousGracefulExitError
from hpc_elastic.rendezvous import joining, running, wishing
from hpc_elastic.rendezvous.actions import Action, Fail, Publish
from hpc_elastic.rendezvous.addresses import is_loopback_literal
from hpc_elastic.rendezvous.record import NodeState, Presence
from hpc_elastic.rendezvous.situation import Phase, Situation
from hpc_elastic.values import replace

Rule = Callable[[Situation], Action | None]


def leave_to_the_newer(s: Situation) -> Action | None:
    """A node of a replaced attempt acts no more."""
    return Fail(replaced(s))


def replaced(s: Situation) -> RendezvousGracefulExitError:
    """What a node of a replaced attempt is told, also one that waits for its seat."""
    number = s.seen.newer.number if s.seen.newer else 0
    return RendezvousGracefulExitError(
        f"attempt {number} of this run has taken over from attempt {s.attempt}; this agent leaves"
    )


def refuse_loopback(s: Situation) -> Action | None:
    """A world of several nodes cannot meet at an address that each host has for itself."""
    proposal = s.front.proposal
    if proposal is None or len(proposal.members) < 2 or s.settings.allow_loopback:
        return None
    if s.node not in s.front.places or not is_loopback_literal(s.seat.address):
        return None
    return Fail(
        RendezvousError(
            f"node {s.seat.name} has the loopback address {s.seat.address} in a world of "
            f"{len(proposal.members)} nodes, and other hosts cannot reach it; give --local-addr, or set "
            "HPC_ELASTIC_ALLOW_LOOPBACK=1 where all nodes share one host"
        )
    )


_WISHES: Final[tuple[Rule, ...]] = (wishing.announce, wishing.better, wishing.end, wishing.close)

RULES: Final[Mapping[Phase, tuple[Rule, ...]]] = {
    Phase.IDLE: _WISHES,
    Phase.JOINING: (
        *_WISHES,
        refuse_loopback,
        joining.close_success,
        joining.abandon_orphan,
        joining.end_orphan,
        joining.end_drained,
        joining.leave_left_out,
        joining.propose,
        joining.stop_for_loss,
        joining.give_up,
    ),
    Phase.CONFIRMING: (*_WISHES, refuse_loopback, joining.judge),
    Phase.RUNNING: (
        wishing.announce,
        wishing.better,
        wishing.drain,
        running.drain_for_notice,
        wishing.end,
        wishing.close,
        running.publish_stop,
        running.succeed,
        running.note_lost_member,
        joining.end_drained,
        running.invite_newcomers,
    ),
    Phase.ENDED: (*_WISHES, running.close_after_success),
    Phase.CLOSED: (),  # nothing follows; the agent reads it and leaves
    Phase.FENCED: (leave_to_the_newer,),
    Phase.LEAVING: (wishing.announce, wishing.better, wishing.end, wishing.close, running.last_one_out),
}


def decide(s: Situation, rules: Mapping[Phase, tuple[Rule, ...]] = RULES) -> tuple[Action, ...]:
    """What this node does next: its presence if it has news or a beat is due, then one action."""
    published = _publish(s)
    if published is not None and published.is_news:
        return (published,)
    found = next((action for rule in rules[s.phase] if (action := rule(s)) is not None), None)
    return tuple(action for action in (published, found) if action is not None)


def _publish(s: Situation) -> Publish | None:
    wanted = presence_now(s)
    if wanted is None:
        return None
    own = s.own
    if own is None or replace(own, beat=wanted.beat) != wanted:
        return Publish(wanted, is_news=True)
    if own.state is not NodeState.LEFT and s.now_s - s.written_at_s >= s.settings.heartbeat_s:
        return Publish(wanted, is_news=False)
    return None


def presence_now(s: Situation) -> Presence | None:
    """What this node has to say of itself, with the next beat; None while it takes no part."""
    state, number = _state(s)
    if state is None:
        return None
    mine = s.seen.mine
    reported, step = s.wish.reported
    leave = s.wish.leave
    return Presence(
        node=s.node,
        attempt=s.attempt,
        name=s.seat.name,
        order=s.seat.order,
        host=s.seat.host,
        address=s.seat.address,
        port=s.port,
        slots=s.seat.slots,
        role=s.seat.role,
        state=state,
        round=number,
        beat=s.beat + 1,
        drain_seen=reported if mine is not None and reported == mine.number else 0,
        step=step if mine is not None and reported == mine.number else -1,
        outcome=leave.outcome if leave else None,
        reason=leave.reason if leave else "",
        stopped=_stopped(s),
        claim=s.claim,
        job=s.seen.attempt.job if s.settings.pool else "",
        ear=s.seat.ear,
    )


def _stopped(s: Situation) -> int:
    mine = s.seen.mine
    if mine is None:
        return 0
    asked_end = s.wish.end is not None and s.wish.end.round == mine.number
    over = s.wish.leave is not None or s.wants_round or s.wish.done == mine.number or asked_end
    return mine.number if over else s.own.stopped if s.own else 0


def _state(s: Situation) -> tuple[NodeState | None, int]:
    mine = s.seen.mine.number if s.seen.mine else 0
    if s.wish.leave is not None:
        return NodeState.LEFT, mine
    if s.phase is Phase.CONFIRMING:
        return NodeState.CONFIRMED, s.front.number
    if s.wants_round:
        return NodeState.JOINING, s.seen.listed
    if s.seen.mine is None:
        return None, 0
    if s.wish.done == mine:
        return NodeState.DONE, mine
    drain = s.seen.mine.drain
    leaving = drain is not None and (drain.everybody or s.node in drain.leaving)
    return (NodeState.DRAINING if leaving else NodeState.CONFIRMED), mine
