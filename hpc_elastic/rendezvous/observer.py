"""What one node reads of the record, and when."""

from __future__ import annotations

from typing import Final

from hpc_elastic.errors import BackendGone, RecordCorrupt
from hpc_elastic.rendezvous import keys, watching
from hpc_elastic.rendezvous.announcements import Announcements
from hpc_elastic.rendezvous.codec import decode_as, decode_if_sound
from hpc_elastic.rendezvous.notebook import Notebook
from hpc_elastic.rendezvous.operations import Names, Read, Trip
from hpc_elastic.rendezvous.record import (
    Attempt,
    NodeState,
    Presence,
)
from hpc_elastic.rendezvous.seen import Arrival
from hpc_elastic.rendezvous.sightings import next_read_s
from hpc_elastic.rendezvous.situation import Situation
from hpc_elastic.rendezvous.standing import Settings
from hpc_elastic.values import replace

BELL_EVERY_S: Final = 1.25
# So long nobody asks, before an act, whether another record has been put in the place of this one.
STANDS_FOR_S: Final = 5.0


class Observer(Notebook):
    """Reads as little as its node's situation asks for."""

    def __init__(self, node: str, attempt: Attempt, settings: Settings) -> None:
        super().__init__(node, attempt, settings)
        self._newest_attempt = attempt.number
        self.announced = Announcements(
            attempt.number,
            pool=settings.pool,
            heartbeat_s=settings.heartbeat_s,
            nodes=settings.expected_nodes,
        )
        self._has_bell = False
        self._has_rung = False
        self.bell_at_s = float("-inf")
        self.presence_due_s = float("-inf")
        self._records_at_s = float("-inf")
        self._stood_at_s = float("inf")  # it has just been entered

    def find_front(self, now_s: float) -> Trip[None]:
        """Begin at the newest number below `rounds/`: what lies before it is settled or will be found so."""
        self._records_at_s = self._stood_at_s = now_s
        names = yield Names(keys.ROUNDS)
        self.announced.learn_listing(keys.ROUNDS, names)
        for number in reversed(keys.numbers(names)):
            raw = yield Read(keys.round_key(number))
            if raw is not None:
                self._advance(number, raw, now_s)
                return

    def look(self, s: Situation) -> Trip[None]:
        """Read what may have changed and matters in this situation."""
        now_s = s.now_s
        yield from self._listen(now_s, is_hot=watching.plan(s).is_hot)
        if now_s - self._records_at_s >= watching.RECORDS_EVERY_S:
            yield from self._list_records(now_s)
        yield from self._walk(now_s)
        self.announced.forget_before(self._oldest_open() - 1)
        yield from self._read_ledger(now_s)
        yield from self._read_presences(
            watching.plan(replace(s, seen=self.seen)), self._heeds_the_ring(now_s), now_s
        )

    def look_soon(self) -> None:
        """Read the bell in the next turn, however short a time ago it was read."""
        self.bell_at_s = float("-inf")

    def list_soon(self) -> None:
        """List the records in the next look: who stood still in the middle of a turn has rung an old bell."""
        self._records_at_s = float("-inf")

    def glance(self, now_s: float) -> Trip[bool]:
        """Read the bell, and nothing else: whether it says something new."""
        self.bell_at_s = now_s
        return (yield from self.hear_bell())

    def hear_bell(self) -> Trip[bool]:
        """Read the bell now; whether it says something new."""
        raw = yield Read(keys.BELL)
        if raw is None and self._has_bell:
            yield from self._check_that_the_record_stands(self._stood_at_s)
        self._has_bell = self._has_bell or raw is not None
        is_new = self.announced.hear(raw)
        self._has_rung = is_new or self._has_rung
        return is_new

    def fence(self, now_s: float) -> Trip[bool]:
        """Whether a newer attempt has replaced this one; asked again before every act."""
        if now_s - self._stood_at_s > STANDS_FOR_S:
            yield from self._check_that_the_record_stands(now_s)
        if self.seen.newer is None:
            yield from self.hear_bell()
            yield from self._follow_attempts(now_s)
        return self.seen.newer is not None

    def _follow_attempts(self, now_s: float) -> Trip[None]:
        while self.seen.newer is None and self._newest_attempt < self.announced.attempt:
            key = keys.attempt_key(self._newest_attempt + 1)
            raw = yield Read(key)
            if raw is None:
                return
            found = decode_as(raw, Attempt, key=key)
            self._newest_attempt = found.number
            if self.seen.attempt.is_replaced_by(found):
                self.seen = replace(self.seen, newer=found)
            else:
                arrivals = {**self.seen.arrivals, found.job: Arrival(found, now_s)}
                self.seen = replace(self.seen, arrivals=arrivals)

    def _listen(self, now_s: float, *, is_hot: bool) -> Trip[None]:
        """Read the bell; once a second at most, unless something is about to happen."""
        if now_s - self.bell_at_s >= (0.0 if is_hot else BELL_EVERY_S) and now_s != self.bell_at_s:
            yield from self.glance(now_s)

    def _heeds_the_ring(self, now_s: float) -> bool:
        """Whether presences are to be read for a new bell: not for each one while it rings on."""
        return self._has_rung and now_s - self._swept_at_s >= BELL_EVERY_S

    def _list_records(self, now_s: float) -> Trip[None]:
        """For the case that a bell was lost together with its ringer."""
        yield from self._check_that_the_record_stands(now_s)
        for folder in (keys.ROUNDS, keys.ATTEMPTS):
            self.announced.learn_listing(folder, (yield Names(folder)))
        self._records_at_s = now_s

    def _check_that_the_record_stands(self, now_s: float) -> Trip[None]:
        """The record is there, and it is that of this run: its attempt is the one that this node entered."""
        mine = self.seen.attempt
        key = keys.attempt_key(mine.number)
        raw = yield Read(key)
        if raw is None:
            raise BackendGone(
                f"the run record is no longer there (attempt {mine.number} was in it); somebody removed it: "
                "start the run again"
            )
        found = decode_if_sound(raw, Attempt, key=key)
        if found not in (None, mine):
            raise BackendGone(
                f"the run record is no longer there: another run's is in its place, whose attempt "
                f"{mine.number} was begun by {found.writer}, not by {mine.writer}; start the run again"
            )
        self._stood_at_s = now_s

    def _walk(self, now_s: float) -> Trip[None]:
        """Follow the rounds from the newest known one to the newest that is announced."""
        while True:
            yield from self._fill(now_s)
            front = self.seen.front
            if front.number >= self.announced.round or (front.closing and front.closing.succeeded):
                return
            number = front.number + 1
            raw = yield Read(keys.round_key(number))
            if raw is None and number < self.announced.round:
                # The live part has been lost meanwhile, and this number with it: the newest is enough.
                number = self.announced.round
                raw = yield Read(keys.round_key(number))
            if raw is None:
                return
            self._advance(number, raw, now_s)

    def _oldest_open(self) -> int:
        """The oldest round of which something may still be read."""
        front, mine = self.seen.front, self.seen.mine
        return front.number if mine is None or mine.end is not None else min(front.number, mine.number)

    def _fill(self, now_s: float) -> Trip[None]:
        """Read what is not known yet of the newest round and of this node's own."""
        front = self.seen.front
        key = keys.verdict_key(front.number)
        if front.is_pending and self.announced.has_of_round(key, front.number):
            yield from self._read_verdict(front.number, now_s)
        if self.seen.front.is_running:
            yield from self._fill_running(front.number, now_s)
        mine = self.seen.mine
        if mine is not None and mine.number != front.number and mine.end is None:
            yield from self._fill_running(mine.number, now_s)
        front = self.seen.front
        if front.is_running and self._node not in front.places:
            self.seen = replace(self.seen, busy_at_s=now_s)

    def _read_verdict(self, number: int, now_s: float) -> Trip[None]:
        """With what came after it: a look that fails halfway must not show what is over as running."""
        raw = yield Read(keys.verdict_key(number))
        if raw is None:
            return
        found = {keys.verdict_key(number): raw}
        if self.announced.has_of_round(keys.end_key(number), number):
            for key in (keys.end_key(number), keys.drain_key(number)):
                found[key] = yield Read(key)
        for key, value in found.items():
            if value is not None:
                self.absorb(key, value, now_s)

    def _fill_running(self, number: int, now_s: float) -> Trip[None]:
        """The end before the drain: a drain that stood before the end is then always found with it.

        With an end the drain is looked for whether it is announced or not: nobody looks again.
        """
        if self.announced.has_of_round(keys.end_key(number), number):
            yield from self._read_into(keys.end_key(number), now_s)
        view = self._view(number)
        has_ended = view is not None and view.end is not None
        if (
            view is not None
            and view.drain is None
            and (has_ended or self.announced.has(keys.drain_key(number)))
        ):
            yield from self._read_into(keys.drain_key(number), now_s)
        view = self._view(number)
        if view is not None and view.stop is None and self.announced.has(keys.stop_key(number)):
            yield from self._read_into(keys.stop_key(number), now_s)

    def _read_into(self, key: str, now_s: float) -> Trip[None]:
        raw = yield Read(key)
        if raw is not None:
            self.absorb(key, raw, now_s)

    def _read_ledger(self, now_s: float) -> Trip[None]:
        yield from self._follow_attempts(now_s)
        number = self.seen.attempt.number
        if self.seen.notice is None and self.announced.has(keys.notice_key(number)):
            yield from self._read_into(keys.notice_key(number), now_s)
        if self.seen.cause is None and self.announced.has(keys.cause_key(number)):
            yield from self._read_into(keys.cause_key(number), now_s)

    def _read_presences(self, plan: watching.Look, rang: bool, now_s: float) -> Trip[None]:
        rang = rang and plan.heeds_the_bell
        lists = plan.lists(now_s - max(self._listed_at_s, self._swept_at_s), rang=rang)
        yield from self._read_urgent(plan.urgent, now_s)
        wanted: dict[str, None] = {}
        if lists:
            names = {*(yield Names(keys.NODES)), *self.announced.nodes}
            wanted.update(dict.fromkeys(sorted(filter(self._is_new, names))))
        for node in plan.regular:
            if rang or now_s >= self._read_due_s(node):
                wanted[node] = None
        for node in wanted:
            found = self.seen.nodes.get(node)
            if node != self._node and (found is None or found.read_at_s < now_s):
                yield from self._read_presence(node, now_s)
        self.presence_due_s = min(map(self._read_due_s, plan.regular), default=float("inf"))
        # Only now: what failed on the way is done again in the next turn.
        if lists:
            self._listed_at_s = now_s
        if rang:
            self._has_rung, self._swept_at_s = False, now_s

    def _read_urgent(self, nodes: tuple[str, ...], now_s: float) -> Trip[None]:
        """One after another up to the first that says nothing new: all of them are awaited.

        Reading all at every look would be N reads for each of them, and a look lasts as long as there
        are nodes. Those behind the first are still read as regular ones.
        """
        for node in nodes:
            if node == self._node:
                continue
            before = self.seen.nodes.get(node)
            yield from self._read_presence(node, now_s)
            after = self.seen.nodes.get(node)
            if after is None or (before is not None and after.says_the_same_as(before)):
                return

    def _read_due_s(self, node: str) -> float:
        known = self.seen.nodes.get(node)
        return float("-inf") if known is None else next_read_s(known, self._settings)

    def _is_new(self, name: str) -> bool:
        """A member of the round is not: who watches it reads it, and the others have no need to."""
        return not (name in self.seen.nodes or name in self.seen.front.places) and self._may_be_eligible(name)

    def _may_be_eligible(self, name: str) -> bool:
        """By its name: what is left of older attempts is not even read, unless its job shares the run."""
        attempt = keys.attempt_of(name)
        if self._settings.pool or self.seen.attempt.number <= attempt < keys.MAX_ATTEMPT:
            return True
        proposal = self.seen.front.proposal
        return name in self.announced.nodes or (proposal is not None and attempt in proposal.shared)

    def _read_presence(self, node: str, now_s: float) -> Trip[None]:
        raw = yield Read(keys.node_key(node))
        if raw is None:
            self._miss(node, now_s)
            return
        try:
            presence = decode_as(raw, Presence, key=keys.node_key(node))
        except RecordCorrupt:
            return  # one node's broken presence is that node's silence, not everybody's end
        self.absorb_presence(presence, now_s)
        front = self.seen.front
        if presence.state is NodeState.LEFT and front.is_running and front.drain is None:
            # Who leaves a drained round has seen its drain. Known before the leaving, it is no loss;
            # else a node that saves at once makes the others stop their workers unsaved.
            yield from self._read_into(keys.drain_key(front.number), now_s)
