"""What a run no longer needs, and who removes it: the proposer of a round, once it has started.

Rounds, ends, notices and attempts stay: they are the run's history, a few small files each. Presences
and seats of replaced attempts go, but those of the last one stay for whoever asks how it ended.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hpc_elastic.rendezvous import keys
from hpc_elastic.rendezvous.codec import decode_as
from hpc_elastic.rendezvous.operations import Names, Read, Remove, Trip
from hpc_elastic.rendezvous.record import Attempt
from hpc_elastic.rendezvous.seen import RoundView
from hpc_elastic.rendezvous.situation import Situation
from hpc_elastic.stores.rounds import space_of

# Not while the members of the round are busy with their start.
AFTER_START_S: Final = 2.0
MOST_AT_ONCE: Final = 500
STORES_LOOKED_FOR: Final = 8


class Tidying:
    """One node's part in it: at most once for each round that it has proposed."""

    def __init__(self) -> None:
        self._round = 0

    def is_due(self, front: RoundView, node: str, now_s: float) -> bool:
        """Whether this node has proposed a round that runs, and has not tidied up since."""
        if front.number <= self._round or front.proposal is None or front.proposal.writer != node:
            return False
        return front.is_running and now_s - front.verdict_seen_at_s >= AFTER_START_S

    def tidy(self, s: Situation) -> Trip[None]:
        """Remove what is left over. What fails is left for the next round."""
        self._round = s.front.number
        old = [space_of(number) for number in _stores_over(s.front.number)]
        nodes, beside = (yield Names(keys.NODES)), (yield Names(keys.ATTEMPTS))
        kept = {_newest_owner(s)} if s.settings.pool else (yield from _shared_attempts(s, nodes, beside))
        old += [key for key in _presences(s, nodes) if keys.attempt_of(_name_of(key)) not in kept]
        old += [key for key in _seats(s, beside) if _seat_attempt(_name_of(key)) not in kept]
        for key in old[:MOST_AT_ONCE]:
            yield Remove(key)


def _newest_owner(s: Situation) -> int:
    """The attempt that has the run for itself, where this node is a guest in it; 0 where there is none."""
    owners = (one.presence.attempt for one in s.seen.nodes.values() if not one.presence.job)
    return max(owners, default=0)


def _shared_attempts(s: Situation, nodes: frozenset[str], beside: frozenset[str]) -> Trip[frozenset[int]]:
    """Those of older numbers whose jobs share the run, so that they may live."""
    numbers = {keys.attempt_of(node) for node in nodes} | {_seat_attempt(name) for name in beside}
    found = set()
    for number in sorted(number for number in numbers if 0 < number < s.attempt):
        raw = yield Read(keys.attempt_key(number))
        if raw is not None and decode_as(raw, Attempt, key=keys.attempt_key(number)).share:
            found.add(number)
    return frozenset(found)


def _name_of(key: str) -> str:
    return key.partition("/")[2]


def _seat_attempt(name: str) -> int:
    """The attempt of a seat's name; 0 for what is no seat."""
    attempt, _, part = name.partition(".")
    return int(attempt) if part.startswith("seat.") and attempt.isdecimal() else 0


def _stores_over(number: int) -> range:
    """Not that of the round before: workers may still end with it. Others may have been left by the dead."""
    return range(max(1, number - STORES_LOOKED_FOR), number - 1)


def _presences(s: Situation, names: frozenset[str]) -> Iterator[str]:
    if s.settings.pool:
        kept = s.settings.max_nodes
        # A silent one may only stand still: it goes once its element has started again.
        gone = [node for node in names if _has_ended(s, node) and node not in s.front.places]
        newest_last = sorted(gone, key=lambda node: (keys.attempt_of(node), node))
        return map(keys.node_key, newest_last[: max(0, len(gone) - kept)])
    return (keys.node_key(node) for node in sorted(names) if keys.attempt_of(node) < s.attempt - 1)


def _seats(s: Situation, names: frozenset[str]) -> Iterator[str]:
    for name in sorted(names):
        attempt = _seat_attempt(name)
        if attempt > 0 and (_has_gone(s, attempt) if s.settings.pool else attempt < s.attempt - 1):
            yield f"{keys.ATTEMPTS}/{name}"


def _has_gone(s: Situation, attempt: int) -> bool:
    """Whether its nodes have left, or its job has started again: until then more may come."""
    known = [node for node, one in s.seen.nodes.items() if one.presence.attempt == attempt]
    return bool(known) and all(_has_ended(s, node) for node in known)


def _has_ended(s: Situation, node: str) -> bool:
    """Whether a node has left, or its seat is another's."""
    found = s.seen.nodes.get(node)
    return found is not None and (found.is_replaced or s.has_left(node))
