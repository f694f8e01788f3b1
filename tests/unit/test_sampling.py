"""Each sample comes exactly once an epoch, however the world and the batch size change on the way."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpc_elastic.sampling import ElasticBatches

worlds = st.lists(st.tuples(st.integers(1, 6), st.integers(1, 7), st.integers(1, 5)), min_size=1, max_size=8)


def take(
    state: dict[str, int | bool] | None, size: int, world: int, batch: int, steps: int, seed: int
) -> tuple[list[tuple[int, int]], dict[str, int | bool]]:
    """What all ranks of a world see in so many steps, and the state after them."""
    ranks = [ElasticBatches(size, batch, rank=rank, world_size=world, seed=seed) for rank in range(world)]
    seen: list[tuple[int, int]] = []
    for one in ranks:
        if state is not None:
            one.load_state_dict(state)
    for _ in range(steps):
        for one in ranks:
            seen += [(one.epoch, index) for index in next(iter(one))]
            one.advance()
    states = [one.state_dict() for one in ranks]
    assert all(one == states[0] for one in states)
    return seen, json.loads(json.dumps(states[0]))


@given(size=st.integers(1, 90), seed=st.integers(), changes=worlds)
def test_a_changing_world_sees_each_sample_exactly_once_an_epoch(
    size: int, seed: int, changes: list[tuple[int, int, int]]
) -> None:
    state, seen = None, []
    for world, batch, steps in changes:
        more, state = take(state, size, world, batch, steps, seed)
        seen += more
    assert state is not None
    rest, state = take(state, size, 1, size, 1, seed)  # to the end of the epoch
    seen += rest

    assert state["position"] == 0
    for epoch in range(state["epoch"]):
        assert sorted(index for of, index in seen if of == epoch) == list(range(size))


phases = st.tuples(st.integers(1, 9), st.integers(0, 12))  # the size of a rank's batch, and steps with it


@given(size=st.integers(1, 400), seed=st.integers(), four=phases, three=phases, again=phases)
def test_four_then_three_then_four_ranks_with_changing_batches_see_each_sample_exactly_once_an_epoch(
    size: int, seed: int, four: tuple[int, int], three: tuple[int, int], again: tuple[int, int]
) -> None:
    state, seen = None, []
    for world, (batch, steps) in ((4, four), (3, three), (4, again)):
        more, state = take(state, size, world, batch, steps, seed)
        seen += more
    assert state is not None
    epochs = int(state["epoch"]) + 1
    while state["epoch"] < epochs:  # the four go on to the end of the epoch
        more, state = take(state, size, 4, again[0], 1, seed)
        seen += more

    assert sorted(seen) == [(epoch, index) for epoch in range(epochs) for index in range(size)]


def test_every_epoch_and_every_seed_has_an_order_of_its_own() -> None:
    def order(seed: int, epoch: int) -> list[int]:
        one = ElasticBatches(1000, 1000, seed=seed)
        one.epoch = epoch
        return next(iter(one))

    orders = [order(seed, epoch) for seed in (0, 1) for epoch in (0, 1, 2)]
    for number, one in enumerate(orders):
        assert sorted(one) == list(range(1000))
        for other in orders[:number]:
            # Two unrelated orders of 1000 agree in one place on average.
            assert sum(a == b for a, b in zip(one, other, strict=True)) < 12
    assert order(1, 2) == order(1, 2)
    # Neighbours in the order are not neighbours in the data.
    near = sum(abs(a - b) < 10 for a, b in zip(orders[0], orders[0][1:], strict=False))
    assert near < 60


def test_without_shuffling_the_samples_come_in_their_order() -> None:
    one = ElasticBatches(5, 2, rank=1, world_size=2, shuffle=False)

    assert list(one) == [[2, 3], []]
    assert len(one) == 2


def test_reading_ahead_does_not_move_the_position() -> None:
    one = ElasticBatches(100, 10)
    list(one)
    assert one.position == 0
    one.advance()
    assert len(list(one)) == len(one) == 9


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"size": 0, "batch_size": 1}, "size=0: give at least 1"),
        ({"size": 1, "batch_size": 0}, "batch_size=0: give at least 1"),
        ({"size": 1, "batch_size": 1, "world_size": 0}, "world_size=0: give at least 1"),
        ({"size": 1, "batch_size": 1, "world_size": 2, "rank": 2}, "rank=2: give 0 to 1"),
    ],
)
def test_numbers_without_sense_are_refused(arguments: dict[str, int], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        ElasticBatches(**arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"size": 9}, "size=10, and the state was saved with 9"),
        ({"seed": 1}, "seed=0, and the state was saved with 1"),
        ({"shuffle": False}, "shuffle=True, and the state was saved with False"),
        ({"position": 10}, "position=10: no place in 10 samples"),
        ({"schema": 2}, "schema=2: this version reads 1"),
    ],
)
def test_a_state_of_another_order_is_refused(change: dict[str, int | bool], complaint: str) -> None:
    one = ElasticBatches(10, 2)
    with pytest.raises(ValueError, match=complaint):
        one.load_state_dict({**one.state_dict(), **change})
