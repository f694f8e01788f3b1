"""What is said to exist, and what the bell has to say: no name is opened before somebody announced it.

A client of a network file system remembers that a name was missing, for 30 to 60 s. A reader that
asks for `rounds/3` too early would learn of it that much later. So it reads the bell, a file that
exists and is overwritten, and opens the names that the bell holds. A bell may be lost: two that are
written at the same moment leave one. Whoever created a record looks whether the bell holds it, and
rings again; after a heartbeat everybody does who knows of it. A listing now and then comes on top.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from hpc_elastic.errors import RecordCorrupt
from hpc_elastic.rendezvous import keys
from hpc_elastic.rendezvous.codec import decode_as, encode
from hpc_elastic.rendezvous.record import Bell
from hpc_elastic.rendezvous.seen import RoundView, Seen

MOST_NODES: Final = 64
MOST_RECORDS: Final = 64
OVERLOOKED_S: Final = 0.5
# As long as the first of many nodes may need to list and read them.
OVERLOOKED_PER_NODE_S: Final = 0.02
# Each new bell is read by all. Of N nodes that all feel overlooked one rings at a time, 20 in a second.
TURN_S: Final = 0.05
FIRST_PAUSE_S: Final = 0.01
LAST_PAUSE_S: Final = 1.0
_NODE: Final = f"{keys.NODES}/"
_SILENT: Final = Bell(0, 0, "", "")


class Announcements:
    """One node's part in it. `attempt` and `round` are the newest numbers that are said to exist."""

    def __init__(self, attempt: int, *, pool: bool, heartbeat_s: float, nodes: int) -> None:
        self.attempt = attempt
        self.round = 0
        self._own_attempt = attempt
        # Each with the newest round at the time.
        self.nodes: dict[str, int] = {}
        self._pool = pool
        self._heartbeat_s = heartbeat_s
        self._nodes = nodes
        self._oldest = 0
        self._records: set[str] = set()
        self._own: dict[str, float] = {}
        self._raw: bytes | None = None
        self._bell = _SILENT
        self._lacks_since_s: float | None = None
        self._again_at_s = float("-inf")
        self._pause_s = FIRST_PAUSE_S

    def hear(self, raw: bytes | None) -> bool:
        """Take in what was read of the bell; whether it says something else than before.

        One that is missing or broken says nothing, so that whoever has something to say rings.
        """
        if raw == self._raw:
            return False
        self._raw = raw
        try:
            self._bell = decode_as(raw, Bell, key=keys.BELL) if raw is not None else _SILENT
        except RecordCorrupt:
            self._bell = _SILENT
        self.attempt = max(self.attempt, self._bell.attempt)
        self.round = max(self.round, self._bell.round)
        self._learn(self._bell.known)
        return True

    def learn_listing(self, folder: str, names: Iterable[str]) -> None:
        """Take in the names that were found in a folder."""
        found = frozenset(names)
        newest = max(keys.numbers(found), default=0)
        if folder == keys.ROUNDS:
            self.round = max(self.round, newest)
        elif folder == keys.ATTEMPTS:
            self.attempt = max(self.attempt, newest)
        self._learn(f"{folder}/{name}" for name in found)

    def own(self, key: str, now_s: float) -> None:
        """This node has written `key`: it will see to it that the bell says so, and at once if it is new."""
        if key in self._own:
            return
        self._own[key] = now_s
        self._learn((key,))
        self._again_at_s, self._pause_s = float("-inf"), FIRST_PAUSE_S

    def forget_before(self, number: int) -> None:
        """Forget what concerns rounds before this one alone: what is known does not grow with the rounds."""
        if number <= self._oldest:
            return
        self._oldest = number
        self._records = {key for key in self._records if self._may_matter(key)}
        self._own = {key: at_s for key, at_s in self._own.items() if self._may_matter(key)}
        self.nodes = {name: at for name, at in self.nodes.items() if at >= number}

    def has(self, key: str) -> bool:
        """Whether this record is said to exist. Of rounds that were forgotten nobody asks."""
        return key in self._records

    def has_of_round(self, key: str, number: int) -> bool:
        """The same for a verdict or an end: without them there would be no later round."""
        return number < self.round or key in self._records

    def is_due(self, seen: Seen, now_s: float) -> bool:
        """Whether the bell lacks what this node has to announce, and it is time to ring again."""
        if self._holds(self._wanted(seen, now_s), seen):
            self._pause_s = FIRST_PAUSE_S
            return False
        return now_s >= self._again_at_s

    def holds_all(self, seen: Seen, now_s: float) -> bool:
        """Whether the bell, as last heard, says all that this node has to announce."""
        return self._holds(self._wanted(seen, now_s), seen)

    def ring(self, seen: Seen, topic: str, writer: str, now_s: float) -> bytes:
        """The bell with everything that it held and that this node knows, to be written now."""
        attempt = max(self.attempt, seen.attempt.number)
        newest = max(self.round, seen.front.number)
        known = {*_records_of(seen), *self._own, *self._bell.known}
        records = sorted((key for key in known if self._is_current(key, newest)), key=_number_of)
        nodes = dict.fromkeys((*self._bell.known, *self._own))
        shared = seen.front.proposal.shared if seen.front.proposal else ()
        nodes_now = [key for key in nodes if self._is_node_of_now(key, shared)]
        self._again_at_s = now_s + self._pause_s
        self._pause_s = min(LAST_PAUSE_S, 2 * self._pause_s)
        return encode(
            Bell(attempt, newest, topic, writer, (*records[-MOST_RECORDS:], *nodes_now[-MOST_NODES:]))
        )

    def _learn(self, found: Iterable[str]) -> None:
        for key in found:
            folder, _, name = key.partition("/")
            if folder == keys.NODES:
                self.nodes[name] = self.round
            elif self._may_matter(key):
                self._records.add(key)

    def _may_matter(self, key: str) -> bool:
        """Whether this node may still ask for a record, or ring for it."""
        folder, _, name = key.partition("/")
        number = name.partition(".")[0]
        if folder == keys.ROUNDS:
            return number.isascii() and number.isdecimal() and int(number) >= self._oldest
        return folder == keys.NODES or number == str(self._own_attempt)

    def _wanted(self, seen: Seen, now_s: float) -> tuple[str, ...]:
        """What the bell should hold: of what this node has written, at once; of what it knows, in time."""
        known = _records_of(seen)
        late = self._lacks_since_s is not None and now_s - self._lacks_since_s > self._heartbeat_s
        mine = known if late else tuple(key for key in known if key in self._own)
        if self._holds(known, seen):
            self._lacks_since_s = None
        elif self._lacks_since_s is None:
            self._lacks_since_s = now_s
        # The members of a round are known by the round; until then a node has to be heard of.
        nodes = () if seen.listed else (key for key in self._own if self._is_overlooked(key, now_s))
        return (*mine, *nodes)

    def _is_overlooked(self, key: str, now_s: float) -> bool:
        """Whether this node's own presence has stood for long enough to be found in a fresh listing."""
        return key.startswith(_NODE) and now_s - self._own[key] >= overlooked_after_s(key, self._nodes)

    def _holds(self, wanted: tuple[str, ...], seen: Seen) -> bool:
        bell = self._bell
        if bell.attempt < seen.attempt.number or bell.round < seen.front.number:
            return False
        # What a newer round has left behind needs no announcement any more.
        return all(key in bell.known or self._is_stale(key, bell) for key in wanted)

    def _is_stale(self, key: str, bell: Bell) -> bool:
        return not key.startswith(_NODE) and not self._is_current(key, bell.round)

    def _is_current(self, key: str, newest: int) -> bool:
        """Whether a record may still be news: of the newest two rounds, and of an attempt that may live."""
        folder, _, name = key.partition("/")
        number, _, part = name.partition(".")
        if not (number.isascii() and number.isdecimal()):
            return False
        if folder == keys.ROUNDS:
            return int(number) >= newest - 1 and part in ("verdict", "drain", "stop", "end")
        lives = self._pool or int(number) >= self._own_attempt
        return folder == keys.ATTEMPTS and lives and part in ("notice", "cause")

    def _is_node_of_now(self, key: str, shared: tuple[int, ...]) -> bool:
        """Whether a key is that of a node which may be in the next round."""
        if not key.startswith(_NODE):
            return False
        attempt = keys.attempt_of(key.removeprefix(_NODE))
        return self._pool or self._own_attempt <= attempt < keys.MAX_ATTEMPT or attempt in shared


def overlooked_after_s(key: str, nodes: int) -> float:
    """When a node of so many that is not in a round yet rings for itself: each has a time of its own."""
    place = int.from_bytes(key.encode()[-4:], "big") * 2654435761 % 2**32 / 2**32
    return max(OVERLOOKED_S, OVERLOOKED_PER_NODE_S * nodes) + place * TURN_S * nodes


def _records_of(seen: Seen) -> tuple[str, ...]:
    """The keys of the records around the present round that have been read."""
    views = (seen.front, seen.mine) if seen.mine is not None else (seen.front,)
    found = [key for view in views for key in _records_of_round(view)]
    if seen.notice is not None:
        found.append(keys.notice_key(seen.attempt.number))
    if seen.cause is not None:
        found.append(keys.cause_key(seen.attempt.number))
    return tuple(found)


def _records_of_round(view: RoundView) -> list[str]:
    number = view.number
    parts = (
        (keys.verdict_key(number), view.verdict),
        (keys.drain_key(number), view.drain),
        (keys.stop_key(number), view.stop),
        (keys.end_key(number), view.end),
    )
    return [key for key, record in parts if record is not None]


def _number_of(key: str) -> tuple[int, str]:
    return int(key.partition("/")[2].partition(".")[0]), key
