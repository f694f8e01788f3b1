"""One node at one moment: all that the machine decides from, and what follows from it directly."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from functools import cached_property
from typing import Final

from hpc_elastic.rendezvous.record import Closed, NodeState, Notice, Outcome, Presence, Scope
from hpc_elastic.rendezvous.seen import RoundView, Seen, Sighting, Wish
from hpc_elastic.rendezvous.standing import Seat, Settings
from hpc_elastic.values import dataclass

_LATE: Final = 1.3  # heartbeats without a beat


class Phase(Enum):
    """What this node is doing, as follows from the records and its agent's wishes."""

    IDLE = "idle"  # its agent has not asked for a round yet
    JOINING = "joining"  # wants a round
    CONFIRMING = "confirming"  # named in a round that is not judged yet
    RUNNING = "running"  # member of a started round
    ENDED = "ended"  # its round has ended; its agent is stopping the workers
    CLOSED = "closed"  # the run is closed for this attempt
    FENCED = "fenced"  # a newer attempt has taken over
    LEAVING = "leaving"  # its agent leaves


@dataclass(frozen=True)
class Situation:
    """`own` is the presence that was last written and acknowledged; `wall` is for people only.

    `beat` is the last that was tried: a lost reply may hide that it was written. `claim` is that
    of this node's seat. `due_since_s` is since when, by what this node sees, a round could have
    been formed.
    """

    node: str
    seat: Seat
    settings: Settings
    wish: Wish
    seen: Seen
    now_s: float
    wall: str
    port: int = 0
    own: Presence | None = None
    beat: int = 0
    claim: int = 0
    written_at_s: float = 0.0
    due_since_s: float | None = None

    @property
    def front(self) -> RoundView:
        return self.seen.front

    @property
    def attempt(self) -> int:
        return self.seen.attempt.number

    @cached_property
    def phase(self) -> Phase:
        if self.wish.leave is not None:
            return Phase.LEAVING
        if self.seen.newer is not None:
            return Phase.FENCED
        if self.closed is not None:
            return Phase.CLOSED
        if self.wants_round:
            named = self.front.is_pending and self.front.number >= self.wish.joining
            return Phase.CONFIRMING if named and self.node in self.front.members else Phase.JOINING
        if self.seen.mine is None:
            return Phase.IDLE
        return Phase.RUNNING if self.seen.mine.end is None else Phase.ENDED

    @property
    def wants_round(self) -> bool:
        """Whether the agent has asked for a round that has not started yet."""
        mine = self.seen.mine.number if self.seen.mine else 0
        return self.wish.joining > mine

    @cached_property
    def closed(self) -> Closed | None:
        """The closing, where it binds: a success binds the run, a failure its attempt and older ones."""
        closing = self.front.closing
        return closing if closing is not None and closing.binds(self.seen.attempt) else None

    @property
    def notice(self) -> Notice | None:
        """The best that is known of why this attempt has to stop."""
        return self.seen.cause or self.seen.notice

    @cached_property
    def must_stop(self) -> bool:
        """Whether no further round is to be formed in this attempt."""
        if any(one is not None and one.scope is Scope.RUN for one in (self.seen.notice, self.wish.notice)):
            return True
        drain = self.front.drain
        return drain is not None and drain.everybody and not self.is_old(self.front)

    def is_eligible(self, presence: Presence) -> bool:
        """Whether a node may be in a round with this one: of its attempt, or of a job that shares the run."""
        return self.settings.pool or presence.attempt == self.attempt or bool(presence.job)

    def is_eligible_member(self, node: str) -> bool:
        """The same for a node of the newest round, by what is known of it."""
        found = self.presence(node)
        return not self.is_old(self.front) and (found is None or self.is_eligible(found))

    def is_old(self, view: RoundView) -> bool:
        """Whether a round belongs to an attempt that this one has replaced, be there guests in it or not."""
        if view.proposal is None or self.settings.pool:
            return False
        owners = set(view.proposal.attempts).difference(view.proposal.shared)
        return bool(owners) and all(attempt < self.attempt for attempt in owners)

    @cached_property
    def line(self) -> tuple[Presence, ...]:
        """The nodes that want the next round, in the order of their ranks.

        Survivors of the newest round keep their order; newcomers follow in their job's node order.
        """
        places = self.front.places
        behind = len(places)
        found = [one.presence for one in self._one_of_each_seat() if self._wants_next(one)]
        return tuple(sorted(found, key=lambda p: (places.get(p.node, behind), p.order, p.name, p.node)))

    def _one_of_each_seat(self) -> Iterable[Sighting]:
        """One agent speaks for a node: that of the highest claim; of two, the one that beat last."""
        seats: dict[tuple[int, str], Sighting] = {}
        for one in self.seen.nodes.values():
            seat = (one.presence.attempt, one.presence.name)
            other = seats.get(seat)
            if other is None or _rank_of(one) > _rank_of(other):
                seats[seat] = one
        return seats.values()

    def _wants_next(self, sighting: Sighting) -> bool:
        """Whether a node is there for the round after the newest.

        A member of the newest round says so only by a presence that knows of that round: an older
        one was read before it was formed.
        """
        presence = sighting.presence
        if presence.state is not NodeState.JOINING or not self.is_eligible(presence):
            return False
        if presence.round < self.front.number and presence.node in self.front.places:
            return False
        return self._is_proven(sighting) and not self.is_silent(presence.node)

    def _is_proven(self, sighting: Sighting) -> bool:
        """Whether a node of another attempt was seen to act: the long dead say that they join, too."""
        return sighting.presence.attempt == self.attempt or sighting.has_moved

    @cached_property
    def in_doubt(self) -> tuple[str, ...]:
        """Nodes of other attempts that say they join, and whose next beat is still to be seen."""
        patience_s = 1.5 * self.settings.heartbeat_s
        return tuple(
            node
            for node, one in self.seen.nodes.items()
            if one.presence.state is NodeState.JOINING
            and self.is_eligible(one.presence)
            and not self._is_proven(one)
            and not one.is_silent(self.settings.liveness_s)
            and self.now_s - one.joining_since_s <= patience_s
        )

    def sighting(self, node: str) -> Sighting | None:
        return self.seen.nodes.get(node)

    def presence(self, node: str) -> Presence | None:
        if node == self.node:
            return self.own
        found = self.seen.nodes.get(node)
        return found.presence if found else None

    def is_silent(self, node: str) -> bool:
        found = self.seen.nodes.get(node)
        return node != self.node and found is not None and found.is_silent(self.settings.liveness_s)

    def is_late(self, node: str) -> bool:
        """Whether a node's beat was watched standing still for longer than it should: it may be dead."""
        found = self.seen.nodes.get(node)
        return found is not None and found.is_silent(_LATE * self.settings.heartbeat_s)

    def has_left(self, node: str) -> bool:
        found = self.presence(node)
        return found is not None and found.state is NodeState.LEFT

    def is_gone(self, node: str) -> bool:
        """Whether a node has left or is silent, as far as this node has watched it."""
        return self.has_left(node) or self.is_silent(node)

    def first_present(self, nodes: Iterable[str]) -> str | None:
        """The first of `nodes` that is not gone: the one that acts for them."""
        return next((node for node in nodes if not self.is_gone(node)), None)

    def is_done(self, node: str, number: int) -> bool:
        """Whether all workers of `node` in round `number` have finished."""
        found = self.presence(node)
        if found is None or found.round != number:
            return False
        return found.state is NodeState.DONE or found.outcome is Outcome.DONE

    def is_through(self, node: str, number: int) -> bool:
        """Whether nothing of round `number` runs on `node` any more, or nobody can know."""
        found = self.presence(node)
        if self.is_gone(node) or self.is_done(node, number):
            return True
        return found is not None and found.stopped >= number


def _rank_of(sighting: Sighting) -> tuple[int, float, str]:
    return sighting.presence.claim, sighting.lived_at_s, sighting.presence.node
