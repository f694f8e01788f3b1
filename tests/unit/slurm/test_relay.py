"""When an element of a pool hands over before its time limit."""

from __future__ import annotations

from itertools import pairwise

import pytest

from hpc_elastic.rendezvous.record import Member, Reason, Round, Scope
from hpc_elastic.rendezvous.standing import Standing
from hpc_elastic.slurm import relay
from hpc_elastic.slurm.relay import Place

DAY_S = 86400.0


def place(rank: int = 0, world: int = 4, least: int = 2, age_s: float = 1000.0) -> Place:
    return Place(rank, world, least, age_s)


@pytest.mark.parametrize(
    ("why", "left_s", "where", "goes"),
    [
        ("long before the limit", 3600.0, place(), False),
        ("the one that is there longest, in time for all four", 700.0, place(), True),
        ("the others after it", 700.0, place(rank=1), False),
        ("the next one only when a successor had time to come", 600.0, place(age_s=100.0), False),
        ("and then it goes", 560.0, place(world=3, age_s=150.0), True),
        ("not while the others would be too few", 400.0, place(world=2), False),
        ("at the end everybody", 119.0, place(rank=1, world=2, age_s=0.0), True),
    ],
)
def test_elements_go_one_by_one_before_their_common_limit(
    why: str, left_s: float, where: Place, goes: bool
) -> None:
    assert relay.is_due(left_s, DAY_S, where) is goes, why


def test_four_elements_with_a_short_limit_all_go_before_the_last_moment_and_never_two_at_once() -> None:
    limit_s, world, went = 120.0, 4, []
    age_s = 0.0
    for second in range(60):
        if world and relay.is_due(limit_s - second, limit_s, place(world=world, least=1, age_s=age_s)):
            went.append(second)
            world, age_s = world - 1, 0.0
        age_s += 1.0

    assert len(went) == 3, "the last one waits for its last moment, or for a successor"
    assert all(later - earlier >= 12 for earlier, later in pairwise(went))


def standing(number: int, *names: str) -> Standing:
    members = tuple(Member(name, name, 1, "d", "a") for name in names)
    agreed = Round(number, (1,), members, "a", 1, "", 0, 0, "now", "w")
    return Standing(1, names[0], round=agreed, rank=0)


def test_the_notice_is_given_once_for_this_node_alone_and_leaves_time_to_requeue() -> None:
    found = relay.of_limit("1000 1:00:00 00:10:00", 1060.0, 5.0, least=1)
    assert found is not None

    assert found.ends_at_s == 5.0 + 3600 - 600 - 60
    assert found.look(standing(1, "a", "b"), 10.0) is None
    assert found.look(standing(1, "a", "b"), 2000.0) is None, "two hand over within the last seven minutes"
    told = found.look(standing(1, "a", "b"), 2600.0)
    assert told is not None
    assert (told.reason, told.scope, told.seconds_left) == (Reason.TIME_LIMIT, Scope.NODE, 172.5)
    assert found.look(standing(1, "a", "b"), 2601.0) is None


@pytest.mark.parametrize("text", ["", "1000 UNLIMITED 00:10:00", "x 1:00:00 00:10:00", "1000 1:00:00"])
def test_without_a_limit_there_is_nothing_to_foresee(text: str) -> None:
    assert relay.of_limit(text, 1060.0, 5.0, least=1) is None
