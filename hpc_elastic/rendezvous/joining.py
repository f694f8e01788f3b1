"""What a node does that wants a round: end what is over, settle it, propose, or give up."""

from __future__ import annotations

from hpc_elastic.errors import NodeLeftOut, RendezvousExhaustedError, RendezvousTimeoutError
from hpc_elastic.rendezvous import closing, forming, keys
from hpc_elastic.rendezvous.actions import Action, Fail, Make
from hpc_elastic.rendezvous.history import Strike
from hpc_elastic.rendezvous.record import Cause, End, NodeState, Notice, Reason, Scope, Verdict
from hpc_elastic.rendezvous.settling import cause_of, settle
from hpc_elastic.rendezvous.situation import Situation


def end_of(s: Situation, cause: Cause, node: str, message: str) -> Make:
    """An end of the newest round that is not a worker's failure."""
    number = s.front.number
    return Make(keys.end_key(number), End(number, cause, node, -1, 0, message, -1, s.wall, s.node))


def close_success(s: Situation) -> Action | None:
    """A round that ended in success is followed by the closing; any node that wants a round may do it."""
    end = s.front.end
    if end is None or end.cause is not Cause.SUCCESS:
        return None
    done = closing.after_success(s, s.front)
    return Make(keys.round_key(done.number), done)


def abandon_orphan(s: Situation) -> Action | None:
    """A proposed round whose members are all replaced or gone is nobody else's to judge."""
    front = s.front
    if not front.is_pending or not (s.is_old(front) or all(map(s.is_gone, front.members))):
        return None
    why = "a newer attempt has taken over" if s.is_old(front) else "all its members are gone"
    return Make(
        keys.verdict_key(front.number),
        Verdict(front.number, started=False, why=why, created_at=s.wall, writer=s.node),
    )


def end_orphan(s: Situation) -> Action | None:
    """A running round whose members are all replaced or gone is ended by who comes next."""
    front = s.front
    if not front.is_running:
        return None
    if s.is_old(front):
        # A drain explains the end of the older attempt better than its successor does.
        cause = Cause.NEWER_ATTEMPT if front.drain is None else cause_of(front.drain)
        return end_of(s, cause, s.node, f"attempt {s.attempt} has taken over")
    if s.node not in front.places and all(map(s.is_gone, front.members)):
        return end_of(s, Cause.MEMBER_LOST, front.members[0], "all its members are gone")
    return None


def end_drained(s: Situation) -> Action | None:
    """A drained round ends when all that will go on have come back, or when their time is over."""
    front = s.front
    if not front.is_running or front.drain is None or s.is_old(front) or s.node not in front.places:
        return None
    if not all(s.is_through(node, front.number) for node in front.members) and s.now_s < _deadline_s(s):
        return None
    return end_of(s, cause_of(front.drain), s.node, f"drained: {front.drain.reason.value}")


def _deadline_s(s: Situation) -> float:
    left_s = s.front.drain.seconds_left if s.front.drain else 0.0
    return s.front.drain_seen_at_s + left_s + s.settings.shutdown_timeout_s


def propose(s: Situation) -> Action | None:
    """Settle the newest round and form the next, or close the run where it cannot go on.

    Only the next round waits for the pause after failures.
    """
    front = s.front
    if front.is_pending or front.is_running or not forming.is_ready(s) or not forming.is_my_turn(s):
        return None
    if front.end is not None and front.settled is None:
        return Make(keys.settled_key(front.number), settle(s, front, front.end))
    closed = closing.after_failure(s, front)
    if closed is not None:
        return Make(keys.round_key(closed.number), closed)
    if not forming.is_due(s):
        return None
    why = front.settled.cause.value if front.settled else "first of its attempt"
    proposal = forming.next_round(s, why)
    return Make(keys.round_key(proposal.number), proposal)


def leave_left_out(s: Situation) -> Action | None:
    """A node that the running round does without goes for good."""
    record = s.front.proposal
    if record is None or not s.front.is_running or s.is_old(s.front) or s.seat.name not in record.left_out:
        return None
    most = max((one.total for one in record.history.strikes if one.name != s.seat.name), default=0)
    mine = next((one for one in record.history.strikes if one.name == s.seat.name), Strike(s.seat.name))
    return Fail(
        NodeLeftOut(
            f"the run goes on without node {s.seat.name}: {mine.failures} rounds were ended by failures of "
            f"its workers and {mine.losses} by its loss, {most} at most by any other node; "
            "have it checked"
        )
    )


def stop_for_loss(s: Situation) -> Action | None:
    """End the attempt when too few nodes are left that can still come: others have to be found.

    Not where those that are missing have left by themselves: a new start would not help.
    """
    if not s.settings.nodes_are_given or s.must_stop or s.front.is_pending or s.front.is_running:
        return None
    waited_s = s.now_s - s.wish.joining_since_s
    if waited_s <= s.settings.last_call_s or forming.may_still_come(s) >= s.settings.min_nodes:
        return None
    if not any(s.is_silent(node) and not s.has_left(node) for node in s.seen.nodes):
        return None
    lost = Notice(s.attempt, Reason.NODE_FAILURE, Scope.RUN, 0.0, s.node, "", s.wall, writer=s.node)
    return Make(keys.notice_key(s.attempt), lost)


def give_up(s: Situation) -> Action | None:
    """Joining is bounded; the time during which others run a round does not count."""
    if s.front.is_running and not s.is_old(s.front):
        return None
    waited_s = s.now_s - max(s.wish.joining_since_s, s.seen.busy_at_s)
    if waited_s <= s.settings.join_timeout_s:
        return None
    here, needed = len(s.line), s.settings.min_nodes
    if here >= needed and s.now_s <= forming.last_call_ends_s(s, s.line) + s.settings.liveness_s:
        return None  # they are there, and the last call ends before long
    if here < needed:
        return Fail(
            RendezvousExhaustedError(
                f"{here} of {needed} nodes joined in {waited_s:.0f} s ({forming.waiting_text(s)}); "
                "see pending nodes with `squeue --me`, or raise join_timeout",
                config=s.settings,
                timeout_s=s.settings.join_timeout_s,
            )
        )
    return Fail(
        RendezvousTimeoutError(
            f"no round was formed in {waited_s:.0f} s although {here} of {needed} nodes are there "
            f"({forming.waiting_text(s)}); look at the logs of the first of them"
        )
    )


def judge(s: Situation) -> Action | None:
    """The proposer, or its stand-in, says whether a proposed round starts."""
    front = s.front
    if front.proposal is None or not may_judge(s):
        return None
    missing = unconfirmed(s)
    reason = _reason_to_abandon(s, missing)
    if missing and not reason:
        return None
    verdict = Verdict(front.number, not reason, reason or "all members have confirmed", s.wall, s.node)
    return Make(keys.verdict_key(front.number), verdict)


def may_judge(s: Situation) -> bool:
    """Whether this node judges the proposed round: its proposer does, others when it does not act."""
    front = s.front
    if front.proposal is None or s.node not in front.places:
        return False
    writer = front.proposal.writer
    if writer == s.node or s.is_gone(writer):
        return True
    if writer not in front.places:  # it has left itself out
        return s.first_present(front.members) == s.node
    delay_s = s.settings.liveness_s + (1 + front.places[s.node]) * s.settings.heartbeat_s
    return s.now_s - front.seen_at_s > delay_s


def unconfirmed(s: Situation) -> tuple[str, ...]:
    """Members of the proposed round that have not said that they will take part."""
    return tuple(node for node in s.front.members if not _has_confirmed(s, node))


def _has_confirmed(s: Situation, node: str) -> bool:
    presence = s.presence(node)
    confirmed = (NodeState.CONFIRMED, NodeState.DRAINING)
    return presence is not None and presence.round == s.front.number and presence.state in confirmed


def _reason_to_abandon(s: Situation, missing: tuple[str, ...]) -> str:
    if s.must_stop:
        return "a notice stands for the attempt"
    for node in s.front.members:
        if s.has_left(node):
            return f"node {node} has left"
    for node in missing:
        if s.is_silent(node):
            return f"node {node} is silent"
    waited_s = s.now_s - s.front.seen_at_s
    if missing and waited_s > 2 * s.settings.liveness_s:
        return f"{', '.join(missing)} did not confirm within {waited_s:.0f} s"
    return ""
