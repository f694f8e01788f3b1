"""What ranks do together through a store: meet, and exchange values.

Each rank writes a key of its own and rank 0 gathers them into one answer, so all of it is linear in
the number of ranks. A prefix serves one meeting.
"""

from __future__ import annotations

from typing import Final

from hpc_elastic.errors import RanksMissing, StoreTimedOut
from hpc_elastic.stores import values
from hpc_elastic.stores.base import Store
from hpc_elastic.stores.values import DEFAULT_TIMEOUT_S, Text, Time

_MET: Final = b"all"


def get_all(
    store: Store, rank: int, key_prefix: Text, world_size: int, timeout: Time = DEFAULT_TIMEOUT_S
) -> list[bytes]:
    """The values of `<key_prefix>/0` to `<key_prefix>/<world_size - 1>`, once they are all there.

    Raises `RanksMissing`, with their numbers, for those that are not there within `timeout`.
    """
    _check(rank, world_size)
    keys = _keys(key_prefix, world_size)
    _await(store, keys, keys, timeout, f"rank {rank} of {world_size} waits for values below")
    return [store.get(key, 0) for key in keys]


def synchronize(
    store: Store,
    data: Text,
    rank: int,
    world_size: int,
    key_prefix: Text,
    timeout: Time = DEFAULT_TIMEOUT_S,
) -> list[bytes]:
    """Give `data` to all ranks, and get what each of them gave, by rank. Raises `RanksMissing`."""
    _check(rank, world_size)
    keys = _keys(key_prefix, world_size)
    met = values.as_key(key_prefix) + b"/" + _MET
    store.set(keys[rank], data)
    what = f"rank {rank} of {world_size} synchronizes at"
    if rank > 0:
        _await(store, [met], keys, timeout, what)
        return _unpacked(store.get(met, 0))
    _await(store, keys, keys, timeout, what)
    gathered = [store.get(key, 0) for key in keys]
    store.set(met, _packed(gathered))
    return gathered


def barrier(
    store: Store, rank: int, world_size: int, key_prefix: Text, timeout: Time = DEFAULT_TIMEOUT_S
) -> None:
    """Return once all ranks have called this. Raises `RanksMissing`, which names those who have not."""
    synchronize(store, b"", rank, world_size, key_prefix, timeout)


def _check(rank: int, world_size: int) -> None:
    are_whole = type(rank) is int and type(world_size) is int
    if not are_whole or not 0 <= rank < world_size:
        raise ValueError(f"rank {rank!r} of {world_size!r}: expected whole numbers, the first from 0 on")


def _keys(prefix: Text, world_size: int) -> list[bytes]:
    begin = values.as_key(prefix)
    return [begin + b"/%d" % rank for rank in range(world_size)]


def _await(store: Store, wanted: list[bytes], keys: list[bytes], timeout: Time, what: str) -> None:
    try:
        store.wait(wanted, timeout)
    except StoreTimedOut as late:
        ranks = tuple(rank for rank, key in enumerate(keys) if not store.check([key])) or (0,)
        prefix = values.shown(keys[0][: -len(b"/0")])
        shown = ", ".join(map(str, ranks[:16])) + (", ..." if len(ranks) > 16 else "")
        raise RanksMissing(
            f"{what} {prefix}: after {values.as_seconds(timeout):g} s {len(ranks)} ranks are missing "
            f"({shown}); look at their logs, or give a longer timeout",
            ranks=ranks,
            missing=late.missing,
        ) from late


def _packed(parts: list[bytes]) -> bytes:
    lengths = b",".join(b"%d" % len(part) for part in parts)
    return lengths + b"\n" + b"".join(parts)


def _unpacked(packed: bytes) -> list[bytes]:
    lengths, _, rest = packed.partition(b"\n")
    parts, begin = [], 0
    for length in map(int, lengths.split(b",")):
        parts.append(rest[begin : begin + length])
        begin += length
    return parts
