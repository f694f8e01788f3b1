"""Where each record belongs, and which names a record may say: what a damaged or foreign one is found by."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, Final

from hpc_elastic.rendezvous import keys
from hpc_elastic.rendezvous.record import (
    Attempt,
    BatchBeat,
    Bell,
    Closed,
    Drain,
    End,
    Notice,
    Presence,
    Record,
    Requeue,
    Round,
    SeatClaim,
    Settled,
    Stop,
    Verdict,
)
from hpc_elastic.rendezvous.sequels import Continued, StaysAway

# What `Backend` takes for a key; a longer one no file system takes.
_KEY: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*")
_MOST_CHARACTERS: Final = 1000


def belongs(record: Record, key: str) -> bool:
    """Whether a record may stand under `key`: its number or its node is the one that the key has."""
    home = _HOMES.get(type(record))
    return home is None or key in home(record)


_HOMES: Final[dict[type[Any], Callable[[Any], tuple[str, ...]]]] = {
    Attempt: lambda one: (keys.attempt_key(one.number),),
    Presence: lambda one: (keys.node_key(one.node),),
    Round: lambda one: (keys.round_key(one.number),),
    Closed: lambda one: (keys.round_key(one.number),),
    Verdict: lambda one: (keys.verdict_key(one.round),),
    Drain: lambda one: (keys.drain_key(one.round),),
    Stop: lambda one: (keys.stop_key(one.round),),
    End: lambda one: (keys.end_key(one.round),),
    Settled: lambda one: (keys.settled_key(one.round),),
    Notice: lambda one: (keys.notice_key(one.attempt), keys.cause_key(one.attempt)),
    Requeue: lambda one: (keys.requeue_key(one.attempt, one.claim),),
    Continued: lambda one: (keys.continuation_key(one.attempt, one.of_job, one.restart_count),),
    StaysAway: lambda one: (keys.stays_away_key(one.attempt),),
    BatchBeat: lambda one: (keys.batch_key(one.attempt),),
    SeatClaim: lambda one: (keys.seat_key(one.attempt, one.name, one.claim),),
    Bell: lambda _: (keys.BELL,),
    # The choice of a backend may be that of the first attempt of a pool, by another one.
}


def strange_names(record: Record) -> Iterable[str]:
    """The names of other records in this one that nothing can have."""
    match record:
        case Round():
            said: Iterable[str] = (keys.node_key(member.node) for member in record.members)
        case SeatClaim():
            said = (keys.node_key(record.writer),)
        case Bell():
            said = record.known
        case _:
            return ()
    return (name for name in said if len(name) > _MOST_CHARACTERS or not _KEY.fullmatch(name))
