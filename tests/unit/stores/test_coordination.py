"""Ranks meet and exchange values, and a time-out names those who did not come."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from hpc_elastic import stores
from hpc_elastic.errors import RanksMissing
from hpc_elastic.stores.coordination import barrier, get_all, synchronize
from hpc_elastic.stores.memory import MemoryStore


def test_everybody_gets_what_each_rank_gave() -> None:
    store = MemoryStore()
    given = [b"", b"one", bytes(range(256)), b"1,2\n3"]

    with ThreadPoolExecutor(4) as ranks:
        got = list(ranks.map(lambda rank: synchronize(store, given[rank], rank, 4, "roles", 60), range(4)))

    assert got == [given] * 4


def test_a_world_of_one_meets_itself() -> None:
    store = MemoryStore()

    assert synchronize(store, "me", 0, 1, "roles") == [b"me"]
    barrier(store, 0, 1, "end")


def test_a_barrier_opens_for_all_when_the_last_has_come() -> None:
    store = MemoryStore()
    through: list[int] = []

    def come(rank: int) -> None:
        barrier(store, rank, 3, "end", 60)
        through.append(rank)

    with ThreadPoolExecutor(3) as ranks:
        first = [ranks.submit(come, rank) for rank in (0, 2)]
        store.wait(["end/0", "end/2"], 60)
        assert through == []
        come(1)
        for one in first:
            one.result(60)

    assert sorted(through) == [0, 1, 2]


@pytest.mark.parametrize("rank", [0, 2])
def test_a_barrier_that_times_out_names_the_ranks_that_are_missing(rank: int) -> None:
    store = MemoryStore()
    store.set("end/0", "")
    store.set("end/2", "")

    with pytest.raises(RanksMissing, match=r"2 ranks are missing \(1, 3\)") as late:
        barrier(store, rank, 4, "end", 0.05)

    assert late.value.ranks == (1, 3)
    assert isinstance(late.value, LookupError)


def test_when_all_came_and_rank_0_did_not_gather_it_is_rank_0_that_is_missing() -> None:
    store = MemoryStore()
    store.set("end/0", "")

    with pytest.raises(RanksMissing) as late:
        barrier(store, 1, 2, "end", 0.05)

    assert late.value.ranks == (0,)


def test_get_all_waits_for_the_values_of_all_ranks() -> None:
    store = MemoryStore()
    for rank in range(3):
        store.set(f"x/{rank}", str(rank))

    assert get_all(store, 1, "x", 3) == [b"0", b"1", b"2"]
    with pytest.raises(RanksMissing, match="rank 1 of 5") as late:
        get_all(store, 1, b"x", 5, 0.05)
    assert late.value.ranks == (3, 4)


@pytest.mark.parametrize(("rank", "world"), [(-1, 2), (2, 2), (0, 0), (0, "2"), (None, 2), (0.5, 2)])
def test_a_rank_outside_of_the_world_is_refused(rank: Any, world: Any) -> None:
    with pytest.raises(ValueError, match=f"rank {rank!r} of {world!r}"):
        synchronize(MemoryStore(), b"", rank, world, "x")


def test_every_public_name_loads_and_an_unknown_one_does_not() -> None:
    for name in stores.__all__:
        assert getattr(stores, name) is not None
    assert dir(stores) == sorted(stores.__all__)
    with pytest.raises(AttributeError, match="no_such_store"):
        stores.no_such_store  # noqa: B018
