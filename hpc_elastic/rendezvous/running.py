"""What a member of a started round does: watch, drain, agree on the stop, end, succeed."""

from __future__ import annotations

from hpc_elastic.rendezvous import keys
from hpc_elastic.rendezvous.actions import Action, Make
from hpc_elastic.rendezvous.joining import close_success, end_drained, end_of
from hpc_elastic.rendezvous.record import Cause, Drain, NodeState, Reason, Scope, Stop
from hpc_elastic.rendezvous.situation import Situation


def leads(s: Situation) -> bool:
    """Whether this node is the first present member of the newest round."""
    return s.front.has_started and s.first_present(s.front.members) == s.node


def _of_its_attempt(s: Situation) -> tuple[str, ...]:
    """The members of the newest round that are of this node's attempt: all, but for those of other jobs."""
    return tuple(node for node in s.front.members if keys.attempt_of(node) == s.attempt)


def _leads_its_attempt(s: Situation) -> bool:
    return s.first_present(_of_its_attempt(s)) == s.node


def drain_for_notice(s: Situation) -> Action | None:
    """A notice drains the round: whoever heard it asks at once, and for a dead hearer the leader."""
    front, notice, heard = s.front, s.notice, s.wish.notice
    if front.drain is not None or not front.is_running or s.node not in front.places:
        return None
    if heard is not None:
        reason, scope, seconds_left, since_s = heard.reason, heard.scope, heard.seconds_left, heard.heard_at_s
    elif notice is not None and notice.scope is Scope.RUN and _leads_its_attempt(s):
        since_s = s.seen.cause_seen_at_s if s.seen.cause else s.seen.notice_seen_at_s
        reason, scope, seconds_left = notice.reason, notice.scope, notice.seconds_left
    else:
        return None
    left_s = max(0.0, seconds_left - (s.now_s - since_s))
    of_attempt = _of_its_attempt(s)
    everybody = scope is Scope.RUN and of_attempt == front.members
    leaving = of_attempt if scope is Scope.RUN else (s.node,)
    drain = Drain(front.number, reason, left_s, everybody, leaving, s.wall, s.node)
    return Make(keys.drain_key(front.number), drain)


def publish_stop(s: Situation) -> Action | None:
    """The leader publishes the agreed step once every member that can still speak has reported."""
    front = s.front
    if front.drain is None or front.stop is not None or not front.is_running or not leads(s):
        return None
    if unreported(s):
        return None
    steps = [p.step for node in front.members if (p := s.presence(node)) and p.drain_seen == front.number]
    return Make(keys.stop_key(front.number), Stop(front.number, max(steps, default=-1) + 1, s.node))


def unreported(s: Situation) -> tuple[str, ...]:
    """Members that run and have not said how far they are since the drain."""
    number = s.front.number
    return tuple(
        node
        for node in s.front.members
        if not s.is_through(node, number)
        and not ((presence := s.presence(node)) and presence.drain_seen == number)
    )


def note_lost_member(s: Situation) -> Action | None:
    """A member that is silent, or has left with work undone, ends the round.

    Not while it drains: the others may be saving, and the deadline bounds it.
    """
    front = s.front
    if not front.is_running or front.drain is not None:
        return None
    for node in front.members:
        if s.is_done(node, front.number):
            continue
        if s.has_left(node):
            presence = s.presence(node)
            return end_of(s, Cause.MEMBER_LEFT, node, presence.reason if presence else "")
        if s.is_silent(node):
            return end_of(s, Cause.MEMBER_LOST, node, f"silent for {s.settings.liveness_s:g} s")
    return None


def succeed(s: Situation) -> Action | None:
    """When all members are done the round ends in success; the leader says so."""
    front = s.front
    if not front.is_running or not leads(s):
        return None
    if not all(s.is_done(node, front.number) for node in front.members):
        return None
    return end_of(s, Cause.SUCCESS, s.node, "all ranks are done")


def close_after_success(s: Situation) -> Action | None:
    """Who wrote the success closes the run; the other members do so when it does not."""
    end = s.front.end
    if end is None or s.node not in s.front.places:
        return None
    delay_s = (1 + s.front.places[s.node]) * s.settings.heartbeat_s
    if end.writer != s.node and s.now_s - s.front.end_seen_at_s < delay_s:
        return None
    return close_success(s)


def invite_newcomers(s: Situation) -> Action | None:
    """Nodes that wait, for longer than the join window, are let in after a save at an agreed step."""
    front = s.front
    if not front.is_running or front.drain is not None or not leads(s):
        return None
    since_s = [s.seen.nodes[node].joining_since_s for node in newcomers(s)]
    done = any(s.is_done(node, front.number) for node in front.members)
    if not since_s or done or s.now_s - min(since_s) < s.settings.join_window_s:
        return None
    drain = Drain(front.number, Reason.MEMBERSHIP, s.settings.shutdown_timeout_s, False, (), s.wall, s.node)
    return Make(keys.drain_key(front.number), drain)


def newcomers(s: Situation) -> tuple[str, ...]:
    """Nodes that wait for a place and would get one. Only those seen alive, not old remains."""
    front = s.front
    room = s.settings.max_nodes - len(front.members)
    left_out = front.proposal.left_out if front.proposal else ()
    waiting = [
        presence.node
        for presence in s.line
        if presence.node not in front.places
        and presence.name not in left_out
        and s.seen.nodes[presence.node].has_moved
    ]
    return tuple(waiting[: max(0, room)])


def last_one_out(s: Situation) -> Action | None:
    """Whoever leaves a drained round last says that it has ended."""
    own = s.own
    if own is None or own.state is not NodeState.LEFT:
        return None
    return end_drained(s)
