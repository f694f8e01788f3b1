"""What the bell must hold, who rings it again, and which names may be opened."""

from __future__ import annotations

from hpc_elastic.rendezvous.announcements import (
    LAST_PAUSE_S,
    MOST_NODES,
    OVERLOOKED_S,
    Announcements,
    overlooked_after_s,
)
from hpc_elastic.rendezvous.codec import decode_as, encode
from hpc_elastic.rendezvous.record import Attempt, Bell, Member, Round, Verdict
from hpc_elastic.rendezvous.seen import RoundView, Seen

WALL = "2000-01-01T00:00:00+00:00"
ATTEMPT = Attempt(2, "c", "1", "", 0, WALL, (), "w")
HEARTBEAT_S = 5.0


def fresh(*, pool: bool = False) -> Announcements:
    return Announcements(ATTEMPT.number, pool=pool, heartbeat_s=HEARTBEAT_S, nodes=4)


def bell(*known: str, round_number: int = 3, attempt: int = 2) -> bytes:
    return encode(Bell(attempt, round_number, "", "other#1", known))


def in_round(number: int, *, judged: bool = False) -> Seen:
    member = Member("2-n0-a", "n0", 1, "default", "10.0.0.1")
    record = Round(number, (2,), (member,), "10.0.0.1", 1, "why", 0, 0, WALL, "2-n0-a")
    verdict = Verdict(number, True, "", WALL, "2-n0-a") if judged else None
    return Seen(ATTEMPT, front=RoundView(number, record, verdict=verdict), listed=number)


def rung(announced: Announcements, seen: Seen, now_s: float = 0.0) -> Bell:
    raw = announced.ring(seen, "topic", "me#1", now_s)
    announced.hear(raw)
    return decode_as(raw, Bell, key="bell")


def test_a_record_exists_when_the_bell_says_so_and_not_before() -> None:
    announced = fresh()
    assert not announced.has("rounds/3.drain")

    assert announced.hear(bell("rounds/3.drain"))

    assert announced.has("rounds/3.drain")
    assert not announced.has("rounds/3.stop")
    assert announced.round == 3


def test_what_came_before_the_newest_round_has_its_verdict_and_its_end() -> None:
    announced = fresh()
    announced.hear(bell())

    assert announced.has_of_round("rounds/2.end", 2)
    assert not announced.has_of_round("rounds/3.end", 3)


def test_the_same_bell_twice_is_heard_once() -> None:
    announced = fresh()

    assert announced.hear(bell("rounds/3.end"))
    assert not announced.hear(bell("rounds/3.end"))


def test_ringing_keeps_what_the_bell_held_of_others() -> None:
    announced = fresh()
    announced.hear(bell("rounds/3.drain", "nodes/2-n1-b", round_number=3))
    announced.own("rounds/3.end", 0.0)

    held = rung(announced, in_round(3, judged=True))

    assert {"rounds/3.drain", "nodes/2-n1-b", "rounds/3.end", "rounds/3.verdict"} <= set(held.known)
    assert (held.attempt, held.round) == (2, 3)


def test_whoever_created_a_record_rings_again_when_another_ring_has_covered_its_own() -> None:
    announced, seen = fresh(), in_round(3, judged=True)
    announced.own("rounds/3.verdict", 0.0)
    rung(announced, seen)
    assert not announced.is_due(seen, 1.0)

    announced.hear(bell("rounds/3.drain"))

    assert announced.is_due(seen, 1.0)
    assert "rounds/3.verdict" in rung(announced, seen, 1.0).known


def test_who_only_knows_of_a_record_rings_for_it_after_a_heartbeat() -> None:
    announced, seen = fresh(), in_round(3, judged=True)
    announced.hear(bell())

    assert not announced.is_due(seen, 0.0)
    assert not announced.is_due(seen, HEARTBEAT_S)
    assert announced.is_due(seen, HEARTBEAT_S + 0.1)


def test_ringing_in_vain_becomes_rare_and_a_new_record_is_rung_for_at_once() -> None:
    announced, seen, now_s, rings = fresh(), in_round(3, judged=True), 0.0, 0
    announced.own("rounds/3.verdict", now_s)
    while now_s < 10.0:
        announced.hear(bell(f"nodes/2-other-{rings}"))
        if announced.is_due(seen, now_s):
            announced.ring(seen, "", "me", now_s)
            rings += 1
        now_s += 0.005
    assert 10 <= rings <= 20
    announced.ring(seen, "", "me", now_s)
    assert not announced.is_due(seen, now_s + LAST_PAUSE_S / 2)

    announced.own("rounds/3.drain", now_s)

    assert announced.is_due(seen, now_s)


def test_a_missing_or_broken_bell_is_rung_anew_by_whoever_has_something_to_say() -> None:
    for broken in (None, b"", b"{}", b"\xff", bell()[:-5]):
        announced, seen = fresh(), in_round(3, judged=True)
        announced.own("rounds/3.verdict", 0.0)
        rung(announced, seen)

        announced.hear(broken)

        assert announced.is_due(seen, 1.0)


def test_a_node_announces_itself_when_it_has_been_overlooked_and_until_a_round_names_it() -> None:
    announced, waiting = fresh(), Seen(ATTEMPT)
    announced.hear(bell(round_number=0))
    announced.own("nodes/2-n0-a", 0.0)

    assert not announced.is_due(waiting, OVERLOOKED_S / 2)
    assert announced.is_due(waiting, 2 * OVERLOOKED_S)
    announced.hear(bell(round_number=3))
    assert not announced.is_due(in_round(3), 2 * OVERLOOKED_S)


def test_of_many_overlooked_nodes_few_ring_at_a_time() -> None:
    times_s = sorted(overlooked_after_s(f"nodes/1-n{place}-{place * 7919:08x}", 200) for place in range(200))

    busiest = max(sum(start <= one < start + 1.0 for one in times_s) for start in times_s)
    assert busiest <= 40
    assert times_s[0] >= 4.0
    assert times_s[-1] <= 14.0


def test_the_bell_stays_small_and_forgets_nodes_of_older_attempts() -> None:
    announced = fresh()
    old = [f"nodes/1-n{i}-x" for i in range(10)]
    new = [f"nodes/2-n{i}-x" for i in range(2 * MOST_NODES)]
    announced.hear(bell(*old, *new, "rounds/1.end", "attempts/1.notice", round_number=3))

    held = rung(announced, in_round(3))

    assert list(held.known) == new[-MOST_NODES:]


def test_in_a_pool_the_elements_of_older_attempts_are_still_announced() -> None:
    announced = fresh(pool=True)
    announced.hear(bell("nodes/1-n0-x", "attempts/1.notice"))

    assert set(rung(announced, in_round(3)).known) == {"nodes/1-n0-x", "attempts/1.notice"}


def test_a_listing_announces_too_and_numbers_only_rise() -> None:
    announced = fresh()
    announced.learn_listing("rounds", {"1", "2", "2.end", "junk", "2.settled"})
    announced.learn_listing("attempts", {"1", "1.seat.n0.0"})
    announced.hear(bell(round_number=1, attempt=1))

    assert (announced.round, announced.attempt) == (2, 2)
    assert announced.has("rounds/2.end")


def test_an_older_bell_without_the_list_is_read_as_one_that_knows_nothing() -> None:
    announced = fresh()

    assert announced.hear(b'{"schema":1,"type":"bell","attempt":7,"round":4,"topic":"","writer":"w"}')
    assert (announced.attempt, announced.round) == (7, 4)


def test_what_is_known_does_not_grow_with_the_rounds() -> None:
    announced = fresh()
    for number in range(1, 201):
        parts = ("verdict", "drain", "stop", "end", "settled")
        announced.learn_listing("rounds", {str(number), *(f"{number}.{part}" for part in parts)})
        announced.learn_listing("attempts", {f"{number}.notice", f"{number}.seat.n0.0"})
        announced.hear(bell(f"nodes/{number}-n0-a", f"rounds/{number}.drain", round_number=number))
        for part in parts:
            announced.own(f"rounds/{number}.{part}", float(number))
        announced.own("nodes/2-n0-a", 0.0)
        announced.forget_before(number - 1)

    assert len(announced.nodes) <= 4
    assert sum(announced.has(f"rounds/{number}.drain") for number in range(1, 201)) == 2
    assert announced.has("rounds/200.stop")
    assert announced.has("attempts/2.notice")
    assert len(announced._own) <= 11
    assert "nodes/2-n0-a" in announced._own


def test_what_was_forgotten_is_not_learned_again() -> None:
    announced = fresh()
    announced.hear(bell("rounds/3.drain", round_number=9))
    announced.forget_before(8)

    announced.learn_listing("rounds", {"3", "3.drain", "8.drain", "9.drain"})

    assert not announced.has("rounds/3.drain")
    assert announced.has("rounds/8.drain")
    assert announced.has_of_round("rounds/3.end", 3)
