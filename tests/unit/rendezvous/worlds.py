"""Situations of one node, built from what differs from a plain one."""

from __future__ import annotations

from typing import Any

from hpc_elastic.rendezvous.actions import Make, Publish
from hpc_elastic.rendezvous.machine import decide
from hpc_elastic.rendezvous.record import (
    Attempt,
    Cause,
    Drain,
    End,
    Member,
    NodeState,
    Notice,
    Presence,
    Reason,
    Round,
    Scope,
    Settled,
    Verdict,
)
from hpc_elastic.rendezvous.seen import EndWish, RoundView, Seen, Sighting, Wish
from hpc_elastic.rendezvous.situation import Situation
from hpc_elastic.rendezvous.standing import Seat, Settings
from hpc_elastic.values import replace

NOW_S = 1000.0
RULES = Settings(min_nodes=2, max_nodes=3, expected_nodes=3)
ATTEMPT = Attempt(1, "c", "1", "", 0, "t", ("a", "b", "c"), "w")
WALL = "t"


def node(name: str, attempt: int = 1) -> str:
    return f"{attempt}-{name}-0"


def presence(name: str, state: NodeState = NodeState.JOINING, **changes: Any) -> Presence:
    order = "abcdef".index(name)
    plain = Presence(
        node(name), 1, name, order, name, f"10.0.0.{order}", 1000 + order, 1, "default", state, 0, beat=5
    )
    return replace(plain, **changes)


def sighting(seen: Presence, *, silent_s: float = 0.0, joining_s: float = 0.5) -> Sighting:
    """Read just now; its beat stands still for `silent_s`; it rose since the end of its last round."""
    since_s = NOW_S - silent_s
    rose_s = NOW_S - silent_s
    return Sighting(seen, since_s, NOW_S, NOW_S - joining_s, lived_at_s=rose_s, has_moved=True)


def round_of(*names: str, number: int = 1, attempt: int = 1, failures: int = 0) -> Round:
    members = tuple(Member(node(n, attempt), n, 1, "default", f"10.0.0.{'abcdef'.index(n)}") for n in names)
    return Round(
        number, (attempt,), members, members[0].address, 1000, "w", failures, 0, WALL, members[0].node
    )


def view(record: Round, **changes: Any) -> RoundView:
    """A started round, seen 100 s ago."""
    verdict = Verdict(record.number, True, "all", WALL, record.writer)
    seen_s = NOW_S - 100.0
    plain = RoundView(record.number, record, seen_s, verdict, seen_s)
    return replace(plain, **changes)


def end(cause: Cause, name: str = "b", number: int = 1) -> dict[str, Any]:
    record = End(number, cause, node(name), 1, 1, "boom", -1, WALL, node(name))
    return {"end": record, "end_seen_at_s": NOW_S - 1.0}


def settled(cause: Cause, number: int = 1) -> Settled:
    return Settled(number, cause, node("b"), "w", WALL, node("a"))


def drain(*, everybody: bool = False, leaving: str = "", reason: Reason = Reason.USER) -> dict[str, Any]:
    record = Drain(1, reason, 30.0, everybody, tuple(map(node, leaving)), WALL, node("a"))
    return {"drain": record, "drain_seen_at_s": NOW_S - 1.0}


def notice(scope: Scope = Scope.RUN, name: str = "a") -> Notice:
    return Notice(1, Reason.PREEMPTED, scope, 60.0, node(name), "SIGUSR2", WALL, node(name))


def situation(
    me: str,
    *others: Sighting,
    own: Presence | None = None,
    front: RoundView | None = None,
    settings: Settings = RULES,
    wish: Wish | None = None,
    **seen: Any,
) -> Situation:
    """The node `me`, with a presence that says what it wants to say, so that only acts are decided."""
    front = front or RoundView()
    is_member = front.has_started and node(me) in front.members
    number = front.number if is_member else 0
    wished = wish or Wish(joining=number or 1, joining_since_s=NOW_S - 1.0)
    named = front.number if node(me) in front.members else 0
    own = own or presence(me)
    known = {one.presence.node: one for one in (sighting(own), *others)}
    return Situation(
        node=node(me),
        seat=Seat(me, own.order, me, own.address, 1),
        settings=settings,
        wish=wished,
        seen=Seen(ATTEMPT, front=front, mine=front if is_member else None, listed=named, nodes=known, **seen),
        now_s=NOW_S,
        wall=WALL,
        port=own.port,
        own=own,
        beat=own.beat,
        written_at_s=NOW_S,
    )


DONE, LEFT, RUNS = NodeState.DONE, NodeState.LEFT, NodeState.CONFIRMED
AGAIN = Wish(joining=2, joining_since_s=NOW_S - 1.0)


def made(s: Situation) -> object:
    """The record that is made, or None. The presence is said before anything is done."""
    s = after_publishing(s)
    acts = [action for action in decide(s) if isinstance(action, Make)]
    return acts[0].record if acts else None


def after_publishing(s: Situation) -> Situation:
    for action in decide(s):
        if isinstance(action, Publish):
            said = action.presence
            nodes = {**s.seen.nodes, s.node: replace(s.seen.nodes[s.node], presence=said)}
            return replace(
                s, own=said, beat=said.beat, written_at_s=s.now_s, seen=replace(s.seen, nodes=nodes)
            )
    return s


def joins(name: str, **changes: Any) -> Sighting:
    return sighting(presence(name, **changes))


def back(name: str) -> Sighting:
    """A member of round 1 that has come back for the next."""
    return sighting(presence(name, round=1, stopped=1))


def runs(name: str, state: NodeState = RUNS, silent_s: float = 0.0, **changes: Any) -> Sighting:
    return sighting(presence(name, state, round=1, **changes), silent_s=silent_s)


AB = round_of("a", "b")
ABC = round_of("a", "b", "c")
FAILED = end(Cause.WORKER_FAILED)
OWN = presence("a", RUNS, round=1)
OWN_B = presence("b", RUNS, round=1)
ALL_DONE = Wish(joining=1, done=1)
FAILS = Wish(joining=1, end=EndWish(1, Cause.WORKER_FAILED))


def a_runs(*others: Sighting, front: RoundView | None = None, **changes: Any) -> Situation:
    """Rank 0 of a running round of a and b."""
    return situation("a", *others, front=front or view(AB), own=OWN, **changes)


def b_runs(*others: Sighting, front: RoundView | None = None, **changes: Any) -> Situation:
    """Rank 1 of the same."""
    return situation("b", *others, front=front or view(AB), own=OWN_B, **changes)


def a_returns(*others: Sighting, members: Round = ABC, **changes: Any) -> Situation:
    """Rank 0 of a round that has ended, in a failure unless told; it wants the next one."""
    return situation("a", *others, front=view(members, **{**FAILED, **changes}), wish=AGAIN)
