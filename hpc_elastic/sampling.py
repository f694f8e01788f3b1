"""Which samples a rank trains on, so that each is seen exactly once an epoch while the world changes.

    batches = ElasticBatches(len(dataset), batch_size=32, rank=ctx.rank, world_size=ctx.world_size)
    batches.load_state_dict(saved)          # by whichever world it was saved
    for batch in batches:                   # lists of indices; a torch DataLoader takes it as batch_sampler
        train(batch)
        batches.advance()                   # once per step, on every rank
        if ctx.should_stop(step):
            save(batches.state_dict())      # the same on every rank

An epoch is one order of all samples, the same on every rank whatever the world. A step takes the next
`batch_size * world_size` of them, and the position is how many have been taken. So a world of any other
size, or another batch size, goes on exactly where the last one stopped. Standard library only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

SCHEMA: Final = 1
_ROUNDS: Final = 2  # of two halves each
_MASK_64: Final = (1 << 64) - 1


class ElasticBatches:
    """The batches of one rank: iterate over what is left of the epoch, `advance` for each one trained on.

    Iterating does not move the position, because loaders read ahead. The last step of an epoch may be
    smaller: what is left is dealt out evenly, and a rank may get an empty batch. Raises `ValueError` for
    numbers that make no sense.
    """

    def __init__(
        self,
        size: int,
        batch_size: int,
        *,
        rank: int = 0,
        world_size: int = 1,
        seed: int = 0,
        shuffle: bool = True,
    ) -> None:
        for name, value in (("size", size), ("batch_size", batch_size), ("world_size", world_size)):
            if value < 1:
                raise ValueError(f"{name}={value}: give at least 1")
        if not 0 <= rank < world_size:
            raise ValueError(f"rank={rank}: give 0 to {world_size - 1}, for world_size={world_size}")
        self.size = size
        self.batch_size = batch_size
        self.rank = rank
        self.world_size = world_size
        self.seed = seed
        self.shuffle = shuffle
        self.epoch = 0
        self.position = 0

    @property
    def step_size(self) -> int:
        """How many samples all ranks together take in one step."""
        return self.batch_size * self.world_size

    def __len__(self) -> int:
        """The number of steps that are left in this epoch."""
        return (self.size - self.position + self.step_size - 1) // self.step_size

    def __iter__(self) -> Iterator[list[int]]:
        """This rank's indices, step by step, from the position to the end of the epoch."""
        order = self._order()
        for begin in range(self.position, self.size, self.step_size):
            first, last = self._part(begin)
            yield [order[place] for place in range(first, last)]

    def sample(self, place: int) -> int:
        """The index at `place` of this epoch's order, `0 <= place < size`."""
        return self._order()[place]

    def advance(self) -> None:
        """One step is done, on all ranks; after the last one of an epoch the next epoch begins."""
        self.position += min(self.step_size, self.size - self.position)
        if self.position == self.size:
            self.epoch, self.position = self.epoch + 1, 0

    def state_dict(self) -> dict[str, int | bool]:
        """Where the run stands in its data: the same on every rank, plain numbers, for any world."""
        return {
            "schema": SCHEMA,
            "size": self.size,
            "seed": self.seed,
            "shuffle": self.shuffle,
            "epoch": self.epoch,
            "position": self.position,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where `state` was taken. Raises `ValueError` where it is of another order of samples."""
        if state.get("schema") != SCHEMA:
            raise ValueError(f"schema={state.get('schema')!r}: this version reads {SCHEMA}; save it anew")
        for name in ("size", "seed", "shuffle"):
            if state[name] != getattr(self, name):
                raise ValueError(
                    f"{name}={getattr(self, name)!r}, and the state was saved with {state[name]!r}: samples "
                    "would be repeated or skipped; give the same, or begin with a new epoch"
                )
        epoch, position = int(state["epoch"]), int(state["position"])
        if epoch < 0 or not 0 <= position < self.size:
            raise ValueError(f"epoch={epoch}, position={position}: no place in {self.size} samples")
        self.epoch, self.position = epoch, position

    def _order(self) -> _Order | range:
        return _Order(self.size, self.seed, self.epoch) if self.shuffle else range(self.size)

    def _part(self, begin: int) -> tuple[int, int]:
        """The places of this rank in the step that begins at `begin`."""
        total = min(self.step_size, self.size - begin)
        share, more = divmod(total, self.world_size)
        first = begin + self.rank * share + min(self.rank, more)
        return first, first + share + (1 if self.rank < more else 0)


class _Order:
    """A shuffled `range(size)` that knows each of its entries without holding any.

    A Feistel network permutes the next power of two; an entry that falls out of the range is permuted
    again until it is in (cycle walking), less than twice on average. See Black and Rogaway, "Ciphers with
    arbitrary finite domains", 2002.
    """

    def __init__(self, size: int, seed: int, epoch: int) -> None:
        bits = max(2, (size - 1).bit_length())
        self._size = size
        self._low_bits = bits // 2
        self._low = (1 << self._low_bits) - 1
        self._high = (1 << (bits - self._low_bits)) - 1
        key = _mixed(_mixed(seed & _MASK_64) ^ epoch)
        self._keys = tuple((_mixed(key + 2 * n), _mixed(key + 2 * n + 1)) for n in range(_ROUNDS))

    def __getitem__(self, place: int) -> int:
        value = self._permuted(place)
        while value >= self._size:
            value = self._permuted(value)
        return value

    def _permuted(self, value: int) -> int:
        high, low = value >> self._low_bits, value & self._low
        for for_high, for_low in self._keys:
            high ^= _mixed(low ^ for_high) & self._high
            low ^= _mixed(high ^ for_low) & self._low
        return (high << self._low_bits) | low


def _mixed(value: int) -> int:
    """The finalizer of SplitMix64 (Steele, Lea and Flood, 2014): each bit of 64 depends on each other one."""
    value = (value + 0x9E3779B97F4A7C15) & _MASK_64
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK_64
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK_64
    return value ^ (value >> 31)
