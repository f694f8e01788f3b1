"""What one node has read, kept as one `Seen` value."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hpc_elastic.errors import RecordCorrupt
from hpc_elastic.rendezvous import keys
from hpc_elastic.rendezvous.codec import decode_any
from hpc_elastic.rendezvous.record import (
    Attempt,
    Closed,
    Drain,
    End,
    Notice,
    Presence,
    Round,
    Settled,
    Stop,
    Verdict,
)
from hpc_elastic.rendezvous.seen import RoundView, Seen
from hpc_elastic.rendezvous.sightings import Sightings, never_seen
from hpc_elastic.rendezvous.standing import Settings
from hpc_elastic.values import replace


class Notebook:
    """Takes in what is read, whoever reads it. `seen` is replaced, never changed."""

    def __init__(self, node: str, attempt: Attempt, settings: Settings) -> None:
        self.seen = Seen(attempt)
        self._node = node
        self._settings = settings
        self._sightings = Sightings(settings)
        self._listed_at_s = float("-inf")
        self._swept_at_s = float("-inf")

    def restart_windows(self, now_s: float) -> None:
        """After an outage or a pause of this node: nobody's silence has been watched."""
        self._restart(self.seen.nodes, now_s)

    def _restart(self, which: Iterable[str], now_s: float) -> None:
        nodes = dict(self.seen.nodes)
        for node in which:
            if node in nodes:
                nodes[node] = replace(nodes[node], beat_since_s=now_s, late_s=float("inf"))
        self.seen = replace(self.seen, nodes=nodes)

    def move_windows(self, by_s: float) -> None:
        """A short time in which something failed: it does not count, what was watched before it does."""
        nodes = {n: replace(one, beat_since_s=one.beat_since_s + by_s) for n, one in self.seen.nodes.items()}
        self.seen = replace(self.seen, nodes=nodes)

    def absorb(self, key: str, raw: bytes, now_s: float) -> None:
        """Take in what stands under `key`, whoever wrote it."""
        record = decode_any(raw, key=key)
        match record:
            case Round() | Closed():
                self._advance(record.number, raw, now_s)
            case Verdict():
                self._update(record.round, verdict=record, verdict_seen_at_s=now_s)
                if record.started:
                    # All its members have just been seen to confirm. Whoever else is silent stays so: a node
                    # that died while it waited would else be taken in and left out for ever, round by round.
                    self._restart(self.seen.front.places, now_s)
                    self._swept_at_s = now_s
            case Drain():
                self._update(record.round, drain=record, drain_seen_at_s=now_s)
            case Stop():
                self._update(record.round, stop=record)
            case End():
                self._update(record.round, end=record, end_seen_at_s=now_s)
            case Settled():
                self._update(record.round, settled=record)
            case Notice() if key == keys.cause_key(record.attempt):
                self.seen = replace(self.seen, cause=record, cause_seen_at_s=now_s)
            case Notice():
                self.seen = replace(self.seen, notice=record, notice_seen_at_s=now_s)
            case _:
                raise RecordCorrupt(
                    f"{key}: holds a record of type {record.TYPE!r}, which does not belong there"
                )

    def absorb_presence(self, presence: Presence, now_s: float) -> None:
        """Take in the presence of one node, read just now."""
        old = self.seen.nodes.get(presence.node)
        is_member = presence.node in self.seen.front.places  # read when somebody has to, not when it came
        has_listed = self._listed_at_s > float("-inf") and not is_member
        new = self._sightings.of(old, presence, now_s, has_listed=has_listed)
        nodes = self._sightings.with_seats({**self.seen.nodes, presence.node: new}, presence)
        self.seen = replace(self.seen, nodes=nodes)

    def _view(self, number: int) -> RoundView | None:
        if self.seen.front.number == number:
            return self.seen.front
        return self.seen.mine

    def _miss(self, node: str, now_s: float) -> None:
        """A presence that is not there, of a node that was seen or is a member, stands still like any other.

        The live part of the record may have vanished as a whole; who lives writes its presence again.
        """
        known = self.seen.nodes.get(node)
        if known is not None:
            self.absorb_presence(known.presence, now_s)
        elif node in self.seen.front.places and self.seen.front.proposal is not None:
            member = self.seen.front.proposal.members[self.seen.front.places[node]]
            self.absorb_presence(never_seen(member), now_s)

    def _advance(self, number: int, raw: bytes, now_s: float) -> None:
        """A number newer than the newest known one."""
        if number <= self.seen.front.number:
            return
        record = decode_any(raw, key=keys.round_key(number))
        if not isinstance(record, (Round, Closed)):
            raise RecordCorrupt(f"{keys.round_key(number)}: holds a record of type {record.TYPE!r}")
        view = RoundView(number, record, seen_at_s=now_s)
        listed = number if self._node in view.places else self.seen.listed
        self.seen = replace(self.seen, front=view, listed=listed)

    def _update(self, number: int, **changes: Any) -> None:
        seen = self.seen
        front = replace(seen.front, **changes) if seen.front.number == number else seen.front
        mine = seen.mine
        if mine is not None and mine.number == number:
            mine = replace(mine, **changes)
        if front.has_started and self._node in front.places:
            mine = front
        here = front.proposal is not None and (
            self._settings.pool or seen.attempt.number in front.proposal.attempts
        )
        started = seen.attempt_has_started or (front.has_started and here)
        self.seen = replace(seen, front=front, mine=mine, attempt_has_started=started)
