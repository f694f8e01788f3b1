"""How a round comes about: who is in line, who is still awaited, and when it is proposed."""

from __future__ import annotations

from collections.abc import Iterator

from hpc_elastic.rendezvous import faults
from hpc_elastic.rendezvous.record import Cause, Member, NodeState, Presence, Round
from hpc_elastic.rendezvous.seen import Sighting
from hpc_elastic.rendezvous.settling import changes_after, failures_after
from hpc_elastic.rendezvous.situation import Situation


def awaited_members(s: Situation) -> tuple[str, ...]:
    """Members of the newest round that are alive, will take part again and are not back yet."""
    if s.front.proposal is None or s.is_old(s.front) or s.now_s > patience_ends_s(s):
        return ()
    back = {presence.node for presence in s.line}
    leaving = set(_leaving(s))
    return tuple(
        node
        for node in s.front.members
        if node not in back | leaving and not s.is_gone(node) and node != s.node
    )


def patience_ends_s(s: Situation) -> float:
    """Until when members of the newest round are awaited."""
    front, rules = s.front, s.settings
    if front.end is not None:
        return front.end_seen_at_s + rules.shutdown_timeout_s + rules.liveness_s
    if front.drain is not None:
        return front.drain_seen_at_s + front.drain.seconds_left + rules.shutdown_timeout_s + rules.liveness_s
    return front.verdict_seen_at_s + rules.liveness_s


def _leaving(s: Situation) -> Iterator[str]:
    front = s.front
    if front.drain is not None:
        yield from front.members if front.drain.everybody else front.drain.leaving
    if front.end is not None and front.end.cause is Cause.MEMBER_LOST:
        yield front.end.node
    for node in front.members:
        presence = s.presence(node)
        if presence is not None and presence.state is NodeState.DRAINING:
            yield node


def unseen_nodes(s: Situation) -> int:
    """How many nodes were given to this attempt and have never been seen, before its first round.

    After that those of jobs that share the run and have just started.
    """
    if s.seen.attempt_has_started:
        return _unseen_arrivals(s)
    if s.settings.pool:  # what is left of elements that ended was never one of those awaited now
        return max(0, s.settings.expected_nodes - len(s.line))
    names = {one.presence.name for one in s.seen.nodes.values() if one.presence.attempt == s.attempt}
    return max(0, s.settings.expected_nodes - len(names))


def _unseen_arrivals(s: Situation) -> int:
    """How many nodes of such a job are on their way: only known where it says which it was given."""
    if not s.seen.arrivals:
        return 0
    in_front = s.front.proposal.attempts if s.front.proposal else ()
    names = {(one.presence.attempt, one.presence.name) for one in s.seen.nodes.values()}
    return sum(
        (one.attempt.number, name) not in names
        for one in s.seen.arrivals.values()
        if one.attempt.number not in in_front and s.now_s - one.seen_at_s <= s.settings.last_call_s
        for name in one.attempt.nodes
    )


def may_still_come(s: Situation) -> int:
    """How many nodes could be in the next round, where nobody but the given ones can come.

    A node that is only slow may come back: it is given the last call beyond the liveness time.
    """
    patience_s = s.settings.liveness_s + s.settings.last_call_s
    known = [one for one in s.seen.nodes.values() if s.is_eligible(one.presence)]
    own = (s.attempt, s.seat.name)
    given = {own, *(_seat_of(one) for one in known if one.presence.attempt == s.attempt)}
    there = {own}
    for one in known:
        if one.presence.state is not NodeState.LEFT and not one.is_silent(patience_s):
            there.add(_seat_of(one))
    return len(there) + max(0, s.settings.expected_nodes - len(given))


def _seat_of(one: Sighting) -> tuple[int, str]:
    return one.presence.attempt, one.presence.name


def is_due(s: Situation) -> bool:
    """Whether the next round can be formed now, by what this node sees."""
    return is_ready(s) and s.now_s >= held_back_until_s(s)


def is_ready(s: Situation) -> bool:
    """The same without the pause after failures: whether all are there whom the next round waits for."""
    there = candidates(s)
    if len(there) < s.settings.min_nodes or s.must_stop or awaited_members(s) or s.in_doubt:
        return False
    if len(there) >= s.settings.max_nodes or not unseen_nodes(s):
        return True
    return s.now_s >= last_call_ends_s(s, there)


def held_back_until_s(s: Situation) -> float:
    """The end of the pause after failures without progress.

    For a restart of the very same members alone: no change of membership waits for it.
    """
    front = s.front
    if front.settled is None or not front.settled.cause.is_failure or s.is_old(front):
        return float("-inf")
    if {presence.node for presence in candidates(s)} != set(front.members):
        return float("-inf")
    history = faults.history_after(front)
    pause_s = faults.pause_s(history, s.settings.restart_backoff_s)
    return front.end_seen_at_s + min(pause_s, s.settings.join_timeout_s / 4)


def candidates(s: Situation) -> tuple[Presence, ...]:
    """Those in line who may be in the next round: all but the suspects, unless that leaves too few."""
    suspects = faults.suspects(s.front, s.settings)
    if not suspects:
        return s.line
    lacking = s.settings.min_nodes - sum(presence.name not in suspects for presence in s.line)
    doubted = [presence.node for presence in s.line if presence.name in suspects]
    kept = set(doubted[: max(0, lacking)])
    return tuple(one for one in s.line if one.name not in suspects or one.node in kept)


def last_call_ends_s(s: Situation, there: tuple[Presence, ...]) -> float:
    """The last call runs for a fixed time from the moment the minimum was reached."""
    since = sorted(s.seen.nodes[presence.node].joining_since_s for presence in there)
    return since[s.settings.min_nodes - 1] + s.settings.last_call_s


def is_my_turn(s: Situation) -> bool:
    """Whether this node proposes: the first in line at once, the others when it does not act."""
    nodes = [presence.node for presence in s.line]
    if s.node not in nodes:
        return False
    if nodes[0] == s.node:
        return True
    place = nodes.index(s.node)
    delay_s = s.settings.liveness_s + place * s.settings.heartbeat_s
    return s.due_since_s is not None and s.now_s - s.due_since_s > delay_s


def next_round(s: Situation, why: str) -> Round:
    """The round that this node would propose now."""
    chosen = candidates(s)[: s.settings.max_nodes]
    first = chosen[0]
    suspects = faults.suspects(s.front, s.settings)
    names = {presence.name for presence in chosen}
    kept = ", ".join(name for name in suspects if name in names)
    if kept:
        why += f"; {kept} ended too many rounds and stays, for {s.settings.min_nodes} nodes are the minimum"
    return Round(
        number=s.front.number + 1,
        attempts=tuple(sorted({presence.attempt for presence in chosen})),
        members=tuple(Member(p.node, p.name, p.slots, p.role, p.address, p.ear) for p in chosen),
        master_address=first.address,
        master_port=first.port,
        why=why,
        failures=failures_after(s.front),
        changes=changes_after(s.front),
        created_at=s.wall,
        writer=s.node,
        history=faults.history_after(s.front),
        left_out=tuple(name for name in suspects if name not in names),
        shared=tuple(sorted({presence.attempt for presence in chosen if presence.job})),
    )


def waiting_text(s: Situation) -> str:
    """What keeps the next round from being formed, for a person."""
    there = s.line
    here = f"{len(there)} of {s.settings.min_nodes} nodes here"
    if s.front.is_running and not s.is_old(s.front):
        return f"round {s.front.number} is running; a place in the next one"
    awaited = awaited_members(s)
    if awaited:
        return f"{here}; {', '.join(awaited)} still stopping"
    pause_s = held_back_until_s(s) - s.now_s
    if pause_s > 0.0:
        return f"{here}; after failures without progress the next round begins in {pause_s:.0f} s"
    names = {presence.name for presence in there}
    missing = [name for name in s.seen.attempt.nodes if name not in names]
    if len(there) >= s.settings.min_nodes:
        left_s = max(0.0, last_call_ends_s(s, there) - s.now_s)
        return f"{here}; last call for {len(missing) or unseen_nodes(s)} more, {left_s:.0f} s"
    return f"{here}; missing {', '.join(missing[:8])}" if missing else here
