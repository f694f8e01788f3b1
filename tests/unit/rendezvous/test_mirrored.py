"""A record in two parts: what is decided where, what is copied when, and what comes back from the ledger."""

from __future__ import annotations

import pytest

from hpc_elastic.backends.memory import MemoryBackend
from hpc_elastic.errors import BackendUnavailable
from hpc_elastic.rendezvous.codec import encode
from hpc_elastic.rendezvous.mirrored import MirroredBackend
from hpc_elastic.rendezvous.record import NodeState, Presence
from hpc_elastic.values import replace

SAID = Presence("1-a-x", 1, "a", 0, "h", "10.0.0.1", 1, 1, "default", NodeState.JOINING, 0, 1)


class DyingBackend(MemoryBackend):
    """A ledger out of reach, as long as `is_dead`."""

    is_dead = False

    def create(self, key: str, value: bytes) -> bytes:
        if self.is_dead:
            raise BackendUnavailable("the disk is gone")
        return super().create(key, value)


@pytest.fixture
def live() -> MemoryBackend:
    return MemoryBackend()


@pytest.fixture
def ledger() -> DyingBackend:
    return DyingBackend()


@pytest.fixture
def both(live: MemoryBackend, ledger: DyingBackend) -> MirroredBackend:
    return MirroredBackend.open(live, ledger)


@pytest.mark.parametrize("key", ["attempts/1", "attempts/1.notice", "rounds/1", "rounds/1.end"])
def test_what_counts_is_in_both_parts(
    both: MirroredBackend, live: MemoryBackend, ledger: MemoryBackend, key: str
) -> None:
    assert both.create(key, b"first") == b"first"
    assert both.create(key, b"second") == b"first"

    assert live.read(key) == ledger.read(key) == b"first"


@pytest.mark.parametrize("key", ["stores/1/key"])
def test_what_lives_with_the_agents_is_not_in_the_ledger(
    both: MirroredBackend, live: MemoryBackend, ledger: MemoryBackend, key: str
) -> None:
    both.create(key, b"x")

    assert live.read(key) == b"x"
    assert ledger.read(key) is None


def test_a_seat_is_in_the_ledger_alone_so_that_claims_never_begin_anew(
    live: MemoryBackend, ledger: MemoryBackend
) -> None:
    key = "attempts/1.seat.a.0"
    MirroredBackend.open(live, ledger).create(key, b"first")
    live.remove("attempts")

    assert MirroredBackend.open(live, ledger).create(key, b"second") == b"first"
    assert live.read(key) is None


def test_an_attempt_is_decided_by_the_ledger_and_a_round_by_the_live_part(
    live: MemoryBackend, ledger: MemoryBackend, both: MirroredBackend
) -> None:
    ledger.create("attempts/1", b"of the ledger")
    live.create("rounds/1", b"of the live part")

    assert both.create("attempts/1", b"mine") == b"of the ledger"
    assert both.create("rounds/1", b"mine") == b"of the live part"
    assert ledger.read("rounds/1") == b"of the live part"


def test_a_failed_copy_is_a_failed_create_which_may_be_tried_again(
    both: MirroredBackend, ledger: DyingBackend
) -> None:
    ledger.is_dead = True
    with pytest.raises(BackendUnavailable):
        both.create("rounds/1", b"x")

    ledger.is_dead = False

    assert both.create("rounds/1", b"x") == b"x"
    assert ledger.read("rounds/1") == b"x"


def test_whoever_makes_the_next_round_copies_what_a_dead_writer_left_out(
    both: MirroredBackend, live: MemoryBackend, ledger: MemoryBackend
) -> None:
    live.create("rounds/1", b"proposal")
    live.create("rounds/1.end", b"end")

    both.create("rounds/2", b"next")

    assert ledger.names("rounds") == {"1", "1.end", "2"}


def test_a_lost_live_part_is_rebuilt_from_the_ledger_as_far_as_it_is_looked_at(ledger: MemoryBackend) -> None:
    for number in range(1, 6):
        for suffix in ("", ".verdict", ".end"):
            ledger.create(f"rounds/{number}{suffix}", f"{number}{suffix}".encode())
    ledger.create("attempts/1", b"one")

    live = MemoryBackend()
    both = MirroredBackend.open(live, ledger)

    assert both.names("rounds") == {f"{n}{suffix}" for n in (4, 5) for suffix in ("", ".verdict", ".end")}
    assert both.read("rounds/5.end") == b"5.end"
    assert both.read("attempts/1") == b"one"


def test_a_record_of_the_ledger_is_not_made_a_second_time_in_an_emptied_live_part(
    ledger: MemoryBackend,
) -> None:
    both = MirroredBackend.open(MemoryBackend(), ledger)
    ledger.create("rounds/1.settled", b"of old")

    assert both.create("rounds/1.settled", b"new") == b"of old"
    assert both.read("rounds/1.settled") == b"of old"


def test_what_only_the_live_part_has_is_in_the_ledger_after_the_next_opening(
    live: MemoryBackend, ledger: MemoryBackend
) -> None:
    live.create("rounds/1", b"proposal")
    live.create("attempts/1.notice", b"notice")
    live.create("attempts/1.seat.a.0", b"seat")

    MirroredBackend.open(live, ledger)

    assert ledger.read("rounds/1") == b"proposal"
    assert ledger.names("attempts") == {"1.notice"}


def test_a_newer_attempt_is_seen_though_it_went_to_another_live_part(
    both: MirroredBackend, ledger: MemoryBackend
) -> None:
    ledger.create("attempts/2", b"newer")

    assert both.read("attempts/2") == b"newer"
    assert "2" in both.names("attempts")


def test_a_presence_reaches_the_ledger_with_the_next_beat_and_its_beats_do_not(
    both: MirroredBackend, ledger: MemoryBackend
) -> None:
    key = "nodes/1-a-x"
    both.overwrite(key, encode(SAID))
    assert ledger.read(key) is None

    for beat in (2, 3, 4):
        both.overwrite(key, encode(replace(SAID, beat=beat)))

    assert ledger.read(key) == encode(replace(SAID, beat=2))


def test_an_end_of_a_presence_reaches_the_ledger_at_once(
    both: MirroredBackend, ledger: MemoryBackend
) -> None:
    left = encode(replace(SAID, state=NodeState.LEFT, beat=9))

    both.overwrite("nodes/1-a-x", left)

    assert ledger.read("nodes/1-a-x") == left


def test_the_bell_rings_in_both_parts(both: MirroredBackend, ledger: MemoryBackend) -> None:
    both.overwrite("bell", b"ding")

    assert ledger.read("bell") == b"ding"
