"""Records that a disk, a hand or another program has damaged: nodes go on, or say which key it is."""

from __future__ import annotations

import json
from random import Random
from typing import Any, Final

import pytest

from hpc_elastic.backends.memory import MemoryBackend
from hpc_elastic.errors import HpcElasticError, NodeLeftOut, RecordCorrupt, RecordLost
from hpc_elastic.rendezvous import keys
from hpc_elastic.rendezvous.codec import decode_any, encode
from hpc_elastic.rendezvous.driver import Driver
from hpc_elastic.rendezvous.entry import UNSEEN_OWNER_S, SeatTaking, find_attempt
from hpc_elastic.rendezvous.operations import finish
from hpc_elastic.rendezvous.record import (
    BatchBeat,
    Bell,
    Cause,
    Closed,
    Record,
    Requeue,
    SeatClaim,
    Stop,
)
from hpc_elastic.rendezvous.seen import EndWish, Wish
from hpc_elastic.rendezvous.sequels import Continued, StaysAway
from hpc_elastic.rendezvous.standing import JobStart, Seat, Settings
from hpc_elastic.testing.simulated_agent import SimulatedPorts
from hpc_elastic.values import replace
from tests.unit.rendezvous.worlds import AB, ATTEMPT, WALL, drain, end, notice, presence, settled, view

START = JobStart("c", "1")
RULES = Settings(2, 3, 3, allow_loopback=True, heartbeat_s=1.0, last_call_s=2.0, join_window_s=0.3)
SEAT_KEY = keys.seat_key(1, "n0", 0)
VERDICT = view(AB).verdict
assert VERDICT is not None

HOMES: Final[list[tuple[str, Record]]] = [
    ("attempts/1", ATTEMPT),
    ("nodes/1-a-0", presence("a")),
    ("rounds/1", AB),
    ("rounds/4", Closed(4, 1, True, 3, 0, "", WALL, "w")),
    ("rounds/1.verdict", VERDICT),
    ("rounds/1.drain", drain()["drain"]),
    ("rounds/1.stop", Stop(1, 7, "w")),
    ("rounds/1.end", end(Cause.DRAIN)["end"]),
    ("rounds/1.settled", settled(Cause.DRAIN)),
    ("attempts/1.notice", notice()),
    ("attempts/1.cause", notice()),
    (SEAT_KEY, SeatClaim(1, "n0", 0, "1-n0-0")),
    ("attempts/1.requeue.2", Requeue(1, 2, "7", WALL, "w")),
    ("attempts/1.continuation.7.0", Continued(1, "7", 0, "8", WALL, "w")),
    ("attempts/1.stays_away", StaysAway(1, "it was cancelled", True, WALL, "w")),
    ("attempts/1.batch", BatchBeat(1, 3, "w")),
    ("bell", Bell(1, 1, "", "w", ("rounds/1.end", "nodes/1-a-0"))),
]


@pytest.mark.parametrize(("key", "record"), HOMES, ids=[key for key, _ in HOMES])
def test_a_record_is_read_under_its_own_key_alone(key: str, record: Record) -> None:
    assert decode_any(encode(record), key=key) == record

    others = {*(other for other, _ in HOMES), "rounds/9", "rounds/9.end", "nodes/x", "attempts/9"} - {key}
    for other in others - ({"attempts/1.notice", "attempts/1.cause"} if record == notice() else set()):
        with pytest.raises(RecordCorrupt, match=rf"{other}: holds a record of type"):
            decode_any(encode(record), key=other)


STRANGE: Final = ("\0", "\ud800", "a b", "../../x", "x" * 2000, "")


@pytest.mark.parametrize("name", STRANGE)
def test_names_that_can_be_nobodys_key_are_not_looked_up(name: str) -> None:
    members = (replace(AB.members[0], node=name), AB.members[1])
    damaged: list[tuple[str, Record]] = [
        ("rounds/1", replace(AB, members=members)),
        (SEAT_KEY, SeatClaim(1, "n0", 0, name)),
        ("bell", Bell(1, 1, "", "w", (f"nodes/{name}",))),
    ]
    for key, record in damaged:
        with pytest.raises(RecordCorrupt, match=f"{key}.*can be nobody's key"):
            decode_any(encode(record), key=key)


def test_a_seat_whose_owner_has_left_half_a_presence_is_waited_for_and_taken() -> None:
    backend = MemoryBackend()
    backend.create(SEAT_KEY, encode(SeatClaim(1, "n0", 0, "1-n0-0")))
    backend.create("nodes/1-n0-0", encode(presence("a"))[:40])
    taking = SeatTaking(ATTEMPT, Seat("n0", 0, "n0", "10.0.0.1", slots=1), RULES, "1-n0-1")

    assert not finish(taking.attempt_claim(0.0), backend)
    assert not finish(taking.attempt_claim(UNSEEN_OWNER_S), backend)
    assert finish(taking.attempt_claim(UNSEEN_OWNER_S + 1.0), backend)


class Node:
    """One node that restarts its workers with the others, and comes anew once its part has ended."""

    def __init__(self, backend: MemoryBackend, place: int) -> None:
        self.backend = backend
        self.place = place
        self.lives = 0
        self.due_s = 0.0
        self.errors: list[HpcElasticError] = []
        self.driver: Driver | None = None
        self.wish = Wish()

    def live(self, now_s: float, *, fails: bool) -> None:
        if now_s < self.due_s:
            return
        try:
            driver = self.driver or self._enter(now_s)
        except HpcElasticError as refused:
            self.errors.append(refused)
            self.due_s = now_s + 1.0
            return
        self.due_s = now_s + driver.step(self.backend, self.wish, now_s, WALL)
        driver.ears()
        standing = driver.standing
        if standing.error is not None:
            self.errors.append(standing.error)
            self.driver = None
        elif standing.round is not None and self.wish.joining == standing.round.number:
            number = standing.round.number
            if standing.end is not None:
                self.wish = Wish(joining=number + 1, joining_since_s=now_s)
            elif fails:
                self.wish = replace(self.wish, end=EndWish(number, Cause.WORKER_FAILED, 0, 1, "boom"))

    def _enter(self, now_s: float) -> Driver:
        self.lives += 1
        writer = f"n{self.place}-{self.lives}"
        attempt = finish(find_attempt(START, writer, WALL), self.backend)
        seat = Seat(f"n{self.place}", self.place, writer, f"10.0.0.{self.place}", slots=1)
        self.driver = Driver(f"{attempt.number}-{writer}", attempt, seat, RULES, SimulatedPorts())
        self.wish = Wish(joining=1, joining_since_s=now_s)
        return self.driver


@pytest.mark.parametrize("seed", range(12))
def test_whatever_is_damaged_nodes_go_on_or_name_the_key(seed: int) -> None:
    chance, backend = Random(seed), MemoryBackend()
    nodes = [Node(backend, place) for place in range(4)]
    strikes = [chance.uniform(0.0, chance.choice([0.3, 2.0, 20.0])) for _ in range(20)]

    for turn in range(400):
        now_s = turn * 0.05
        for at_s in [at_s for at_s in strikes if at_s < now_s]:
            strikes.remove(at_s)
            damage_one(chance, backend)
        for node in nodes:
            node.live(now_s, fails=chance.random() < 0.02)

    told = [error for node in nodes for error in node.errors if not isinstance(error, NodeLeftOut)]
    assert all(isinstance(error, RecordCorrupt | RecordLost) for error in told)
    named = ("attempts/", "rounds/", "nodes/")
    assert all(
        str(error).startswith(named) or "another run's is in its place" in str(error) for error in told
    )


def damage_one(chance: Random, backend: MemoryBackend) -> None:
    known = sorted(key for folder in ("attempts", "rounds", "nodes") for key in below(backend, folder))
    known += [keys.BELL] if backend.read(keys.BELL) else []
    if known:
        key = chance.choice(known)
        raws = [raw for one in known if (raw := backend.read(one)) is not None]
        backend.overwrite(key, damaged(chance, backend.read(key) or b"", raws))


def below(backend: MemoryBackend, folder: str) -> list[str]:
    return [f"{folder}/{name}" for name in backend.names(folder)]


def damaged(chance: Random, raw: bytes, others: list[bytes]) -> bytes:
    return chance.choice(
        [
            chance.randbytes(100),
            raw[: chance.randrange(len(raw) + 1)],
            b"",
            b"\0" * len(raw),
            b"[" * 100_000,
            raw.replace(b'"schema":1', b'"schema":2'),
            chance.choice(others),
            *[with_another_value(chance, raw)] * 5,
        ]
    )


def with_another_value(chance: Random, raw: bytes) -> bytes:
    try:
        body = json.loads(raw)
    except (ValueError, RecursionError):
        return raw
    if not isinstance(body, dict):
        return raw
    name = chance.choice(sorted(set(body) - {"schema", "type"}))
    body[name] = another(chance, body[name])
    return json.dumps(body).encode()


def another(chance: Random, value: Any) -> Any:
    if isinstance(value, list) and value:
        return chance.choice([[], value + value, value[::-1], [another(chance, value[0]), *value[1:]]])
    if isinstance(value, dict) and value:
        name = chance.choice(sorted(value))
        return {**value, name: another(chance, value[name])}
    if isinstance(value, str):
        return chance.choice([*STRANGE, "1-n0-1", "rounds/1", "9" * 5000, 1, None])
    if isinstance(value, bool):
        return not value
    return chance.choice([0, -1, 1, 2, 2**63 - 1, -(2**63) + 1, 10**30, 1e300, None, "1", [1]])
