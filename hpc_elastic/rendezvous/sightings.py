"""What a presence that was read says about its node, after what was read before."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hpc_elastic.rendezvous import keys
from hpc_elastic.rendezvous.record import Member, NodeState, Presence
from hpc_elastic.rendezvous.seen import Sighting
from hpc_elastic.rendezvous.standing import Settings
from hpc_elastic.values import replace

# In heartbeats: how well the moment of a beat has to be known, and when one is looked for that does not come.
_WELL_KNOWN: Final = 0.15
_LOOKS: Final = (1.0, 1.1, 1.2, 1.4, 2.0)
_JUST_OVER: Final = 1.001


def never_seen(member: Member) -> Presence:
    """What stands for the presence of a member that has none: it has not confirmed, and its beat is 0."""
    return Presence(
        node=member.node,
        attempt=keys.attempt_of(member.node),
        name=member.name,
        order=0,
        host="",
        address=member.address,
        port=0,
        slots=member.slots,
        role=member.role,
        state=NodeState.CONFIRMED,
        round=0,
        beat=0,
        ear=member.ear,
    )


def next_read_s(one: Sighting, settings: Settings) -> float:
    """When to look at the beat of a node again, so that its silence is noticed when it is long enough.

    Once in a heartbeat, when the next beat should just have been written. To find that moment without
    comparing clocks, a look is taken earlier: half way into the time in which it may be. That halves what is
    not known with each beat. A node that misses beats is looked at when it has missed enough of them.
    """
    beat_s = settings.heartbeat_s
    if one.presence.state is NodeState.LEFT or one.is_silent(settings.liveness_s):
        return one.read_at_s + beat_s
    earlier_s = min(one.late_s, beat_s) / 2 if one.late_s > _WELL_KNOWN * beat_s else 0.0
    for after_s in (beat_s - earlier_s, *(share * beat_s for share in _LOOKS)):
        if one.beat_since_s + after_s > one.read_at_s:
            return one.beat_since_s + after_s
    return one.beat_since_s + _JUST_OVER * settings.liveness_s


class Sightings:
    """Makes sightings; remembers the highest claim of each seat and the latest start of each element."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._claims: dict[tuple[int, str], int] = {}
        self._starts: dict[str, int] = {}

    def of(self, old: Sighting | None, presence: Presence, now_s: float, *, has_listed: bool) -> Sighting:
        """The sighting of a node whose presence was read just now.

        `has_listed`: whether this node had looked at who is there before, so that a new one has come since.
        """
        if old is None:
            return Sighting(presence, now_s, now_s, now_s, has_moved=has_listed)
        before = old.presence
        if presence.beat < before.beat:
            return old  # a cache has shown what is past
        rose = presence.beat > before.beat
        watched = now_s - old.read_at_s <= 2 * self._settings.heartbeat_s
        same_wish = (before.state, before.round) == (presence.state, presence.round)
        still = (
            presence.state is NodeState.JOINING and same_wish and not old.is_silent(self._settings.liveness_s)
        )
        return Sighting(
            presence,
            beat_since_s=now_s if rose or not watched else old.beat_since_s,
            read_at_s=now_s,
            joining_since_s=old.joining_since_s if still else now_s,
            lived_at_s=old.read_at_s if rose else old.lived_at_s,
            has_moved=old.has_moved or rose,
            late_s=self._late_s(old, presence, now_s) if rose and watched else old.late_s,
        )

    def _late_s(self, old: Sighting, presence: Presence, now_s: float) -> float:
        """How long ago a beat that has just been seen to rise was written, at most."""
        unseen_s = now_s - old.read_at_s
        if replace(old.presence, beat=old.presence.beat + 1) != presence:
            return unseen_s
        # Two beats are a heartbeat apart, unless the node has something to tell.
        by_rhythm_s = old.late_s + now_s - old.beat_since_s - self._settings.heartbeat_s
        return max(0.0, min(unseen_s, by_rhythm_s))

    def with_seats(self, nodes: Mapping[str, Sighting], new: Presence) -> Mapping[str, Sighting]:
        """The same nodes: a seat is that of its highest claim, and of an element the latest start counts."""
        seat = (new.attempt, new.name)
        highest = self._claims[seat] = max(self._claims.get(seat, 0), new.claim)
        # A job that has the run for itself fences its older starts itself; guests have to see it.
        # A member that was never seen (its beat is 0) has not said whose it is.
        counts = new.beat > 0 and (bool(new.job) or self._settings.pool)
        newest = self._starts[new.job] = max(self._starts.get(new.job, 0), new.attempt if counts else 0)
        if highest == newest == 0:
            return nodes

        def is_replaced(one: Presence) -> bool:
            lost_its_seat = (one.attempt, one.name) == seat and one.claim < highest
            return lost_its_seat or (one.job == new.job and one.attempt < newest)

        return {
            node: replace(one, is_replaced=True) if is_replaced(one.presence) else one
            for node, one in nodes.items()
        }
