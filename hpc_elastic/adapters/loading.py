"""A data loader that stands where it stopped, for loops that ask theirs for its state.

    batches = ElasticBatches(len(dataset), batch_size=32, rank=ctx.rank, world_size=ctx.world_size)
    loader = ElasticLoader(batches, lambda sampler: DataLoader(dataset, batch_sampler=sampler, num_workers=4))

Lightning saves and restores a loader that has `state_dict`, and so does accelerate once it is registered.
Each batch that was given out counts as trained on, so the state is to be taken between steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from hpc_elastic.sampling import ElasticBatches


class ElasticLoader:
    """One epoch for each iteration: what is left of the one that was begun, then whole ones.

    `load(sampler)` makes the loader proper; `sampler` gives lists of indices, as `batch_sampler` expects.
    In the last step of an epoch a rank that would get nothing gets one sample of a peer again: it has to
    take part in the collectives of that step. All others are seen exactly once.
    """

    def __init__(self, batches: ElasticBatches, load: Callable[[Iterable[list[int]]], Iterable[Any]]) -> None:
        self.batches = batches
        self._load = load
        self._taken = 0
        self._is_resumed = False

    def __len__(self) -> int:
        """The steps of this epoch: those that were taken, in whatever world, and those that are left."""
        is_over = self._taken > 0 and self.batches.position == 0
        if not is_over:
            return self._taken + len(self.batches)
        # Who resumes at the end of an epoch compares with the steps it counted; who goes on looks ahead.
        return self._taken if self._is_resumed else len(self.batches)

    def __iter__(self) -> Iterator[Any]:
        """This rank's loaded batches, to the end of the epoch; nothing is loaded before it is asked for."""
        if not self._is_resumed or self.batches.position == 0:
            self._taken = 0
        self._is_resumed = False
        for loaded in self._load(_NeverEmpty(self.batches)):
            self._taken += 1
            self.batches.advance()
            yield loaded

    def state_dict(self) -> dict[str, Any]:
        """The position, the same on every rank: plain numbers."""
        return {"batches": self.batches.state_dict(), "taken": self._taken}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where `state` was taken; `ValueError` where it is of other data."""
        self.batches.load_state_dict(state["batches"])
        self._taken = int(state["taken"])
        self._is_resumed = True


class _NeverEmpty:
    """The batches, without empty ones."""

    def __init__(self, batches: ElasticBatches) -> None:
        self._batches = batches

    def __len__(self) -> int:
        return len(self._batches)

    def __iter__(self) -> Iterator[list[int]]:
        begin = self._batches.position
        for batch in self._batches:
            yield batch or [self._batches.sample(begin)]
            begin += self._batches.step_size
