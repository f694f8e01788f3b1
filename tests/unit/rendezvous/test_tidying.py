"""What the proposer of a round removes once it runs, and what it leaves."""

from __future__ import annotations

from typing import Any

import pytest

from hpc_elastic.rendezvous import keys
from hpc_elastic.rendezvous.operations import Names, Operation, Remove
from hpc_elastic.rendezvous.record import Cause, NodeState
from hpc_elastic.rendezvous.situation import Situation
from hpc_elastic.rendezvous.tidying import AFTER_START_S, Tidying
from hpc_elastic.values import replace
from tests.unit.rendezvous.worlds import (
    ATTEMPT,
    NOW_S,
    RULES,
    end,
    node,
    presence,
    round_of,
    sighting,
    situation,
    view,
)


def removed(s: Situation, listings: dict[str, frozenset[str]]) -> list[str]:
    """The keys that are removed where the folders show this."""
    trip = Tidying().tidy(s)
    found: list[str] = []
    answer: Any = None
    while True:
        try:
            operation: Operation = trip.send(answer)
        except StopIteration:
            return found
        answer = listings.get(operation.folder, frozenset()) if isinstance(operation, Names) else None
        if isinstance(operation, Remove):
            found.append(operation.key)


def runs(number: int = 5, *, pool: bool = False, **changes: Any) -> Situation:
    record = round_of("a", "b", number=number, attempt=1)
    front = view(replace(record, writer=node("a")), **changes)
    mine = situation("a", sighting(presence("b")), front=front, settings=replace(RULES, pool=pool))
    return replace(mine, seen=replace(mine.seen, attempt=replace(ATTEMPT, number=4)))


@pytest.mark.parametrize(
    ("why", "changes", "is_due"),
    [
        ("it runs", {}, True),
        ("it has just started", {"verdict_seen_at_s": NOW_S - AFTER_START_S / 2}, False),
        ("it is not judged", {"verdict": None}, False),
        ("it has ended", end(Cause.WORKER_FAILED, number=5), False),
    ],
)
def test_the_proposer_tidies_up_once_while_its_round_runs(
    why: str, changes: dict[str, Any], is_due: bool
) -> None:
    front = runs(**changes).front

    assert Tidying().is_due(front, node("a"), NOW_S) is is_due, why
    assert not Tidying().is_due(front, node("b"), NOW_S)


def test_stores_of_rounds_before_the_last_are_removed() -> None:
    assert removed(runs(5), {}) == ["stores/1", "stores/2", "stores/3"]


def test_presences_and_seats_of_the_last_attempt_stay_and_older_ones_go() -> None:
    nodes = frozenset({"1-a-0", "2-a-0", "3-a-0", "4-a-0", "oddly-named"})
    attempts = frozenset({"1", "2", "1.notice", "2.seat.a.0", "3.seat.a.0", "4.seat.a.0"})

    found = removed(runs(1), {keys.NODES: nodes, keys.ATTEMPTS: attempts})

    assert found == ["nodes/1-a-0", "nodes/2-a-0", "attempts/2.seat.a.0"]


def test_in_a_pool_the_nodes_that_went_last_stay_as_many_as_a_round_can_have() -> None:
    s = runs(1, pool=True)
    gone = [
        replace(presence("c", NodeState.LEFT), node=f"{number}-c-0", attempt=number) for number in range(9)
    ]
    known = {**s.seen.nodes, **{one.node: sighting(one) for one in gone}}
    s = replace(s, seen=replace(s.seen, nodes=known))

    found = removed(s, {keys.NODES: frozenset(known)})

    assert found == [f"nodes/{number}-c-0" for number in range(9 - RULES.max_nodes)]
