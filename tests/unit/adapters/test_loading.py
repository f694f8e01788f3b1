"""A loader that knows where it stands: in the middle of an epoch, at its end, and for another world."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any

from hpc_elastic.adapters.loading import ElasticLoader
from hpc_elastic.sampling import ElasticBatches


def world(
    size: int, ranks: int, *, batch: int = 2, state: dict[str, Any] | None = None
) -> list[ElasticLoader]:
    """The loaders of all ranks, which give the numbers of their samples."""
    loaders = [
        ElasticLoader(ElasticBatches(size, batch, rank=rank, world_size=ranks, seed=7), lambda taken: taken)
        for rank in range(ranks)
    ]
    for loader in loaders:
        if state is not None:
            loader.load_state_dict(state)
    return loaders


def train(loaders: list[ElasticLoader], steps: int | None = None) -> list[int]:
    """The samples of all ranks in as many steps of one epoch, all of them by default."""
    rows: list[Iterable[list[int]]] = [islice(loader, steps) for loader in loaders]
    return [number for row in rows for batch in row for number in batch]


def test_an_epoch_is_each_sample_once_and_the_next_one_is_in_another_order() -> None:
    loaders = world(24, 3)

    assert [len(loader) for loader in loaders] == [4, 4, 4]
    first, second = train(loaders), train(loaders)

    assert sorted(first) == sorted(second) == [*range(24)]
    assert first != second


def test_another_world_goes_on_in_the_middle_and_counts_the_steps_of_the_first_to_the_epoch() -> None:
    four = world(24, 4, batch=1)
    begun = train(four, 3)

    three = world(24, 3, batch=1, state=four[2].state_dict())

    assert [len(loader) for loader in three] == [3 + 4] * 3, (
        "three steps of twelve samples are done, 12 are left"
    )
    assert sorted(begun + train(three)) == [*range(24)]
    assert [len(loader) for loader in three] == [8] * 3, "the next epoch is a whole one"
    assert sorted(train(three)) == [*range(24)]


def test_a_state_taken_at_the_last_step_of_an_epoch_begins_the_next_one() -> None:
    two = world(8, 2)
    train(two, 2)
    state = two[0].state_dict()

    resumed = world(8, 2, state=state)

    assert state["batches"]["epoch"] == 1
    assert len(resumed[0]) == 2, "the epoch that is over, as the loop that saved it counts"
    assert sorted(train(resumed)) == [*range(8)]


def test_a_rank_without_a_sample_in_the_last_step_takes_one_of_a_peer() -> None:
    loaders = world(10, 4, batch=1)

    seen = train(loaders)

    assert len(seen) == 12, "every rank has a batch in each of three steps"
    assert set(seen) == {*range(10)}


def test_nothing_is_loaded_before_it_is_asked_for() -> None:
    asked: list[list[int]] = []

    def load(sampler: Iterable[list[int]]) -> Iterable[list[int]]:
        for batch in sampler:
            asked.append(batch)
            yield batch

    loader = ElasticLoader(ElasticBatches(8, 2), load)
    taken = iter(loader)

    assert asked == []
    assert next(taken) == asked[0]
    assert loader.state_dict()["batches"]["position"] == 2, "what was given out counts as trained on"
