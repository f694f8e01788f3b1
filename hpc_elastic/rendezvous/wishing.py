"""What the agent has asked for, as records: notices, drains, ends, closings."""

from __future__ import annotations

from hpc_elastic.rendezvous import keys
from hpc_elastic.rendezvous.actions import Action, Make
from hpc_elastic.rendezvous.closing import bound_by_closing
from hpc_elastic.rendezvous.record import Cause, Closed, Drain, End, Notice
from hpc_elastic.rendezvous.seen import NoticeWish
from hpc_elastic.rendezvous.settling import changes_after, failures_after
from hpc_elastic.rendezvous.situation import Situation

_DRAINED = (Cause.DRAIN, Cause.MEMBERS_JOINING)


def announce(s: Situation) -> Action | None:
    """The notice that this node has heard, unless one stands already."""
    if s.wish.notice is None or s.seen.notice is not None:
        return None
    return Make(keys.notice_key(s.attempt), _notice(s, s.wish.notice))


def better(s: Situation) -> Action | None:
    """What this node has learned about the cause of the notice."""
    if s.wish.cause is None or s.seen.cause is not None:
        return None
    return Make(keys.cause_key(s.attempt), _notice(s, s.wish.cause))


def _notice(s: Situation, wish: NoticeWish) -> Notice:
    return Notice(
        s.attempt, wish.reason, wish.scope, wish.seconds_left, s.node, wish.signal, s.wall, writer=s.node
    )


def drain(s: Situation) -> Action | None:
    """The drain that the agent asks for, while that round runs."""
    wish, mine = s.wish.drain, s.seen.mine
    if (
        wish is None
        or mine is None
        or mine.number != wish.round
        or mine.drain is not None
        or mine.end is not None
    ):
        return None
    leaving = mine.members if wish.everybody else wish.leaving
    asked = Drain(wish.round, wish.reason, wish.seconds_left, wish.everybody, leaving, s.wall, s.node)
    return Make(keys.drain_key(wish.round), asked)


def end(s: Situation) -> Action | None:
    """The end that the agent has seen. That of a drain waits until all members are through."""
    wish, mine = s.wish.end, s.seen.mine
    if wish is None or mine is None or mine.number != wish.round or mine.end is not None:
        return None
    if wish.cause in _DRAINED and mine.drain is not None:
        return None
    seen = End(
        round=wish.round,
        cause=wish.cause,
        node=wish.node or s.node,
        rank=wish.rank,
        exit_code=wish.exit_code,
        message=wish.message,
        step=wish.step,
        created_at=s.wall,
        writer=s.node,
        ran_s=wish.ran_s,
    )
    return Make(keys.end_key(wish.round), seen)


def close(s: Situation) -> Action | None:
    """The closing that the agent asks for; it takes the next free number."""
    wish = s.wish.close
    if wish is None or s.closed is not None:
        return None
    number = s.front.number + 1
    closing = Closed(
        number=number,
        attempt=bound_by_closing(s, s.front),
        succeeded=False,
        last_round=s.front.number,
        exit_code=wish.exit_code,
        message=wish.message,
        created_at=s.wall,
        writer=s.node,
        failures=failures_after(s.front),
        changes=changes_after(s.front),
        share=s.seen.attempt.share,
    )
    return Make(keys.round_key(number), closing)
