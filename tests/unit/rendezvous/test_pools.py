"""A pool: elements of several attempts in one round, and what is left of those that have ended."""

from __future__ import annotations

import pytest

from hpc_elastic.rendezvous import forming
from hpc_elastic.rendezvous.record import GUESTS, Attempt, Cause, Closed, NodeState, Presence
from hpc_elastic.rendezvous.seen import Arrival
from hpc_elastic.rendezvous.sightings import Sightings, never_seen
from hpc_elastic.values import replace
from tests.unit.rendezvous.worlds import (
    AGAIN,
    NOW_S,
    RULES,
    after_publishing,
    end,
    made,
    node,
    presence,
    round_of,
    settled,
    sighting,
    situation,
    view,
)

POOL = replace(RULES, pool=True, last_call_s=0.0, max_restarts=0)


def element(name: str, attempt: int) -> Presence:
    return replace(presence(name), node=node(name, attempt), attempt=attempt, job=f"c/1/{name}")


@pytest.mark.parametrize(
    ("why", "has_moved", "for_s", "is_due"),
    [
        ("it may be alive, its next beat is awaited", False, 1.0, False),
        ("it did not beat in time: it does not count", False, 1.6 * RULES.heartbeat_s, True),
        ("it lives, and is a member", True, 1.0, True),
    ],
)
def test_an_element_that_says_it_joins_is_believed_once_it_has_moved(
    why: str, has_moved: bool, for_s: float, is_due: bool
) -> None:
    there = sighting(presence("b"))
    doubtful = replace(sighting(element("c", 7), joining_s=for_s), has_moved=has_moved)
    s = after_publishing(situation("a", there, doubtful, settings=POOL))

    assert forming.is_due(s) is is_due, why
    assert (node("c", 7) in [one.node for one in s.line]) is has_moved


def test_an_element_that_has_started_again_takes_the_place_of_its_last_start() -> None:
    sightings = Sightings(POOL)
    old, new = element("c", 7), element("c", 9)

    seen = {old.node: sightings.of(None, old, NOW_S, has_listed=True)}
    seen = dict(sightings.with_seats(seen, old))
    seen[new.node] = sightings.of(None, new, NOW_S, has_listed=True)
    seen = dict(sightings.with_seats(seen, new))

    assert seen[old.node].is_replaced
    assert not seen[new.node].is_replaced


def test_a_guest_that_died_unseen_does_not_replace_the_nodes_of_the_run_it_came_to() -> None:
    sightings = Sightings(POOL)
    host = presence("a")
    seen = {host.node: sightings.of(None, host, NOW_S, has_listed=True)}
    seen = dict(sightings.with_seats(seen, host))

    unseen = never_seen(round_of("c", attempt=7).members[0])
    seen[unseen.node] = sightings.of(None, unseen, NOW_S, has_listed=True)
    seen = dict(sightings.with_seats(seen, unseen))
    seen = dict(sightings.with_seats(seen, host))

    assert not any(one.is_replaced for one in seen.values())


def test_a_closing_binds_all_elements_that_were_in_the_round() -> None:
    record = replace(round_of("a", "b"), attempts=(1, 7))
    front = view(record, settled=settled(Cause.WORKER_FAILED), **end(Cause.WORKER_FAILED))
    s = situation("a", sighting(presence("b", NodeState.JOINING, round=1)), front=front, settings=POOL)
    closing = made(
        replace(s, wish=replace(s.wish, joining=2), seen=replace(s.seen, attempt_has_started=True))
    )

    assert isinstance(closing, Closed)
    assert closing.attempt == 7


ELEMENT = Attempt(5, "c", "9", "1", 0, "t", (), "w", "c/7")
GUEST = Attempt(6, "c", "11", "", 0, "t", (), "w", GUESTS)
OWNER = Attempt(4, "c", "8", "", 0, "t", (), "w")


@pytest.mark.parametrize(
    ("attempt", "newer", "is_replaced"),
    [
        (OWNER, replace(OWNER, number=9, restart_count=1), True),
        (OWNER, replace(OWNER, number=9, job_id="12"), True),
        (OWNER, GUEST, False),
        (OWNER, ELEMENT, False),
        (GUEST, replace(OWNER, number=9, restart_count=1), False),
        (GUEST, replace(GUEST, number=9, restart_count=1), True),
        (ELEMENT, replace(ELEMENT, number=9, restart_count=1), True),
        (ELEMENT, replace(ELEMENT, number=9, array_task="2"), False),
    ],
)
def test_of_jobs_that_share_a_run_only_a_later_start_of_the_same_replaces(
    attempt: Attempt, newer: Attempt, is_replaced: bool
) -> None:
    assert attempt.is_replaced_by(newer) is is_replaced


@pytest.mark.parametrize(
    ("share", "attempt", "binds"),
    [
        ("", replace(OWNER, number=8), True),
        ("", replace(OWNER, number=9), False),
        ("c/7", replace(ELEMENT, number=9), True),
        ("c/7", replace(ELEMENT, number=9, share="c/30"), False),
        ("", replace(GUEST, number=9), True),
    ],
)
def test_a_failure_binds_the_elements_of_its_array_and_guests_that_start_later(
    share: str, attempt: Attempt, binds: bool
) -> None:
    closed = Closed(3, 8, False, 2, 1, "it failed", "t", "w", share=share)

    assert closed.binds(attempt) is binds
    assert replace(closed, succeeded=True).binds(attempt)


@pytest.mark.parametrize(
    ("why", "names", "started_s", "is_due"),
    [
        ("c of the job that has just started is on its way", ("b", "c"), 1.0, False),
        ("all of it are there", ("b",), 1.0, True),
        ("c was given its time", ("b", "c"), 31.0, True),
        ("nobody knows what the job was given", (), 1.0, True),
    ],
)
def test_the_last_call_is_also_for_the_nodes_of_a_job_that_has_just_started(
    why: str, names: tuple[str, ...], started_s: float, is_due: bool
) -> None:
    rules = replace(POOL, last_call_s=30.0)
    over = view(round_of("a", "d"), **end(Cause.DRAIN, "d"), settled=settled(Cause.DRAIN))
    left = sighting(replace(presence("d"), state=NodeState.LEFT, round=1))
    start = Attempt(7, "c", "1", "", 1, "t", names, "w")
    s = situation(
        "a",
        left,
        sighting(element("b", 7)),
        own=replace(presence("a"), round=1),
        front=over,
        settings=rules,
        wish=AGAIN,
        attempt_has_started=True,
        arrivals={start.job: Arrival(start, NOW_S - started_s)},
    )

    assert forming.is_due(s) is is_due, why
