"""When too few nodes can still come, the attempt is ended so that others can be found."""

from __future__ import annotations

import pytest

from hpc_elastic.rendezvous.record import Cause, Notice, Reason, Scope
from hpc_elastic.rendezvous.seen import Wish
from hpc_elastic.rendezvous.situation import Situation
from hpc_elastic.rendezvous.standing import Settings
from tests.unit.rendezvous.worlds import (
    LEFT,
    NOW_S,
    RUNS,
    end,
    made,
    presence,
    round_of,
    settled,
    sighting,
    situation,
    view,
)

GIVEN = Settings(min_nodes=2, max_nodes=2, expected_nodes=2, nodes_are_given=True)
PATIENCE_S = GIVEN.liveness_s + GIVEN.last_call_s
LOST = view(round_of("a", "b"), settled=settled(Cause.MEMBER_LOST), **end(Cause.MEMBER_LOST))


def waiting(
    *, silent_s: float = PATIENCE_S + 1.0, waited_s: float = 60.0, settings: Settings = GIVEN
) -> Situation:
    other = sighting(presence("b", RUNS), silent_s=silent_s)
    wish = Wish(joining=2, joining_since_s=NOW_S - waited_s)
    return situation("a", other, front=LOST, settings=settings, wish=wish, attempt_has_started=True)


def notices(s: Situation) -> list[Notice]:
    record = made(s)
    return [record] if isinstance(record, Notice) else []


def test_the_loss_of_a_node_of_a_fixed_world_ends_the_attempt() -> None:
    (said,) = notices(waiting())

    assert (said.reason, said.scope) == (Reason.NODE_FAILURE, Scope.RUN)


@pytest.mark.parametrize(
    ("why", "s"),
    [
        ("it may only be slow", waiting(silent_s=GIVEN.liveness_s + 1.0)),
        ("we have only begun to wait", waiting(waited_s=5.0)),
        (
            "another one can be started",
            waiting(settings=Settings(min_nodes=2, max_nodes=2, expected_nodes=2)),
        ),
        (
            "a node that was given has not been seen yet",
            waiting(settings=Settings(2, 3, expected_nodes=3, nodes_are_given=True)),
        ),
        ("one is enough", waiting(settings=Settings(1, 2, expected_nodes=2, nodes_are_given=True))),
    ],
)
def test_the_attempt_goes_on_as_long_as(why: str, s: Situation) -> None:
    assert notices(s) == [], why


def test_nodes_that_have_left_by_themselves_are_not_replaced() -> None:
    left = sighting(presence("b", LEFT))
    wish = Wish(joining=2, joining_since_s=NOW_S - 60.0)
    s = situation("a", left, front=LOST, settings=GIVEN, wish=wish, attempt_has_started=True)

    assert notices(s) == []
