"""Which presences a node reads, and how fast it looks: pure, so that it can be read as a table.

A member reads one neighbour; the first of a round, or of a line, reads all. So a round costs O(N)
reads in all, and everybody is watched by somebody.
"""

from __future__ import annotations

from typing import Final

from hpc_elastic.rendezvous import forming, joining, keys, running
from hpc_elastic.rendezvous.record import NodeState
from hpc_elastic.rendezvous.situation import Phase, Situation
from hpc_elastic.values import dataclass

FIRST_GLANCE_S: Final = 0.2
GLANCE_EVERY_S: Final = 1.0
# Who is not the first reads of the others only when the first takes long, and that depends on their number:
# N nodes that each read N presences are what makes a start quadratic.
GLANCE_PER_NODE_S: Final = 0.05
LONGEST_GLANCE_S: Final = 10.0
NEVER_S: Final = float("inf")
# At once, of nodes that may be dead: each of all that wait reads so many in a heartbeat.
MOST_LOOKED_AT: Final = 64


@dataclass(frozen=True)
class Look:
    """`urgent` presences are read at every look, up to the first without news; `regular` ones once in a
    heartbeat.

    `list_every_s`: how often the folder of nodes is listed; new names are read at once.
    `is_hot`: something is about to happen, and each look goes straight to the records.
    """

    is_hot: bool
    list_every_s: float
    urgent: tuple[str, ...] = ()
    regular: tuple[str, ...] = ()

    def lists(self, since_s: float, *, rang: bool) -> bool:
        """Whether the folder is to be listed, that long after it was listed last, or for a bell."""
        return self.list_every_s != NEVER_S and (rang or since_s >= self.list_every_s)

    @property
    def is_awaited(self) -> bool:
        """Whether the others wait for what this node sees."""
        return bool(self.urgent) or self.list_every_s == 0.0

    @property
    def heeds_the_bell(self) -> bool:
        """Whether news of others matter: not to who waits for the first, or takes no part."""
        return self.is_awaited or not (self.is_hot or self.list_every_s == NEVER_S)


_IDLE_LIST_S: Final = 30.0
# With these, a look at the bell every 1.25 s, its beat and its neighbour's an idle member makes less than
# two filesystem calls a second, and a notice reaches all within two (benchmarks/rendezvous.py measures it).
RECORDS_EVERY_S: Final = 60.0
_MEMBERS_LIST_S: Final = 60.0  # newcomers are let in by the leader


def plan(s: Situation) -> Look:
    """What to look at now."""
    match s.phase:
        case Phase.JOINING:
            return _joining(s)
        case Phase.CONFIRMING:
            return _confirming(s)
        case Phase.RUNNING | Phase.ENDED:
            return _member(s)
        case Phase.LEAVING:
            return _leaving(s)
        case Phase.IDLE | Phase.CLOSED | Phase.FENCED:
            return Look(is_hot=False, list_every_s=NEVER_S)


def _joining(s: Situation) -> Look:
    front = s.front
    if front.is_running and not s.is_old(front) and s.node not in front.places:
        return Look(is_hot=False, list_every_s=_IDLE_LIST_S, regular=_chain(s, front.members))
    if front.is_pending and not s.is_old(front):
        return Look(is_hot=True, list_every_s=_IDLE_LIST_S, regular=_chain(s, front.members))
    if _is_first(s):
        awaited = tuple(node for node in front.members if node in _still_out(s))
        return Look(is_hot=True, list_every_s=0.0, urgent=awaited, regular=_may_come(s))
    if s.now_s - s.wish.joining_since_s < _first_glance_s(s):
        return Look(is_hot=True, list_every_s=NEVER_S)
    if s.now_s - s.wish.joining_since_s < s.settings.liveness_s:
        return Look(is_hot=True, list_every_s=_glance_every_s(s), regular=_before(s))
    return Look(is_hot=True, list_every_s=_glance_every_s(s), regular=_may_come(s))


def _first_glance_s(s: Situation) -> float:
    return max(FIRST_GLANCE_S, min(LONGEST_GLANCE_S, GLANCE_PER_NODE_S * s.settings.expected_nodes))


def _glance_every_s(s: Situation) -> float:
    return max(GLANCE_EVERY_S, min(LONGEST_GLANCE_S, GLANCE_PER_NODE_S * s.settings.expected_nodes))


def _may_come(s: Situation) -> tuple[str, ...]:
    """All that could still be in the next round, silent ones included: they may come back."""
    known = [one.presence for one in s.seen.nodes.values() if not one.is_replaced]
    there = [p.node for p in known if s.is_eligible(p) and p.state is not NodeState.LEFT]
    # Of the round of an older start those of other jobs, which go on with this one.
    shared = s.front.proposal.shared if s.front.proposal else ()
    mine = [node for node in s.front.members if not s.is_old(s.front) or keys.attempt_of(node) in shared]
    missing = [node for node in mine if node not in s.seen.nodes]
    return tuple(node for node in there + missing if node != s.node)


def _still_out(s: Situation) -> tuple[str, ...]:
    """Members of a drained or ended round whose return, or end, is waited for."""
    if s.front.is_running:
        return tuple(node for node in s.front.members if not s.is_through(node, s.front.number))
    return forming.awaited_members(s)


def _before(s: Situation) -> tuple[str, ...]:
    """The neighbour before this node: in the last round, else in the line."""
    order = s.front.members if s.node in s.front.places else tuple(p.node for p in s.line)
    if s.node not in order:
        return _chain(s, order)
    return _chain(s, tuple(reversed(order[: order.index(s.node)])))


def _is_first(s: Situation) -> bool:
    """Whether this node is, by what it knows, the first in line for the next round."""
    if s.node in s.front.places:
        return s.first_present(s.front.members) == s.node
    if any(not s.is_gone(node) and s.is_eligible_member(node) for node in s.front.members):
        return False
    there = s.line
    if len(there) > 1:
        return there[0].node == s.node
    return s.seat.order == 0 or s.now_s - s.wish.joining_since_s >= _first_glance_s(s)


def _confirming(s: Situation) -> Look:
    members = s.front.members
    if joining.may_judge(s):
        return Look(is_hot=True, list_every_s=NEVER_S, urgent=joining.unconfirmed(s), regular=members)
    writer = s.front.proposal.writer if s.front.proposal else ""
    if writer not in s.front.places:
        # It has left itself out, and the first member that is there judges: is that another one still?
        return Look(is_hot=True, list_every_s=NEVER_S, regular=_chain(s, members[: s.front.places[s.node]]))
    return Look(is_hot=True, list_every_s=NEVER_S, regular=(writer,))


def _member(s: Situation) -> Look:
    front = s.front
    is_done = s.own is not None and s.own.state is NodeState.DONE
    drained = front.drain is not None and front.is_running
    asks = s.wish.end is not None and s.wish.end.round == front.number and front.is_running
    hot = is_done or (drained and front.stop is None) or asks
    if s.node not in front.places:
        return Look(is_hot=hot, list_every_s=_IDLE_LIST_S)
    if not running.leads(s):
        behind = front.members[: front.places[s.node]]
        return Look(hot, _MEMBERS_LIST_S, regular=_chain(s, tuple(reversed(behind))))
    urgent: tuple[str, ...] = ()
    if drained:
        urgent = running.unreported(s) if front.stop is None else ()
    elif is_done:
        urgent = tuple(node for node in front.members if not s.is_done(node, front.number))
    others = tuple(node for node in front.members if node != s.node)
    return Look(hot, _IDLE_LIST_S, urgent=urgent, regular=others + _outside(s))


def _outside(s: Situation) -> tuple[str, ...]:
    """Nodes that wait for a place, or that fell silent once and may come back to ask for one."""
    return tuple(node for node in s.seen.nodes if node not in s.front.places and not s.has_left(node))


def _leaving(s: Situation) -> Look:
    first = _first_still_in(s)
    return Look(is_hot=True, list_every_s=_IDLE_LIST_S, urgent=(first,) if first else ())


def _first_still_in(s: Situation) -> str | None:
    """A leaver of a drained round asks, one by one, whether somebody is still in it."""
    front = s.front
    if not front.is_running or front.drain is None or s.node not in front.places:
        return None
    return next((node for node in front.members if not s.is_through(node, front.number)), None)


def has_said_goodbye(s: Situation) -> bool:
    """Whether this node has left, and somebody else is there to end a drained round, or nobody needs to."""
    if s.own is None:
        return s.wish.leave is not None
    if s.own.state is not NodeState.LEFT:
        return False
    first = _first_still_in(s)
    if first is None:
        return s.front.end is not None or s.front.drain is None or s.node not in s.front.places
    sighting = s.sighting(first)
    return sighting is not None and sighting.read_at_s > s.written_at_s


def _chain(s: Situation, nodes: tuple[str, ...]) -> tuple[str, ...]:
    """The nodes up to the first that is present: gone ones are looked at again, they may come back.

    Of those that nobody looked at yet one is enough, and twice as many with each that misses its beats: a
    whole rack of dead ones, watched one after another, would take longer than anybody waits for a round.
    """
    found: list[str] = []
    missing = 0
    for node in nodes:
        if node == s.node:
            continue
        if len(found) > min(2 * missing, missing + MOST_LOOKED_AT):
            break
        found.append(node)
        if s.is_gone(node) or s.is_late(node):
            missing += 1
        elif s.sighting(node) is not None:
            break
    return tuple(found)
