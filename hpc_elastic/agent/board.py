"""What the agents of one round tell each other through the round's store, whatever keeps it.

Three things: who each of them is (for ranks), a beat until its workers have finished, and how the round
ended. The end is written once: whoever sees a cause first, and all others go by what stands.
"""

from __future__ import annotations

import json
from enum import Enum
from typing import Any, Final

from hpc_elastic.clock import Clock
from hpc_elastic.errors import RendezvousStateError
from hpc_elastic.stores import coordination
from hpc_elastic.stores.base import Store
from hpc_elastic.stores.prefixed import PrefixedStore
from hpc_elastic.values import asdict, dataclass
from hpc_elastic.workers.failures import ProcessFailure

_SPACE: Final = "hpc_elastic/agents"
_END: Final = "end"
_DONE: Final = b"done"
_MESSAGE_CHARS: Final = 2000


class EndCause(str, Enum):
    """Why a round is over."""

    DONE = "done"  # all workers of all nodes have succeeded
    FAILED = "failed"  # a worker has failed
    MEMBERS = "members"  # nodes wait to join, or are gone


@dataclass(frozen=True)
class RoundEnd:
    """How a round ended; `failure` is the root cause where a worker failed."""

    cause: EndCause
    group_rank: int = -1
    failure: ProcessFailure | None = None

    def encode(self) -> bytes:
        """The end as JSON; the error file's data stay where they are."""
        failure = None
        if self.failure is not None:
            failure = asdict(self.failure) | {"error_file_data": {}}
            failure["message"] = self.failure.message[:_MESSAGE_CHARS]
        return json.dumps(
            {"cause": self.cause.value, "group_rank": self.group_rank, "failure": failure}
        ).encode()

    @classmethod
    def decode(cls, raw: bytes) -> RoundEnd:
        """The end in `raw`. Raises `RendezvousStateError` where it is none."""
        body = _parsed(raw)
        try:
            failure = body["failure"]
            given = None if failure is None else ProcessFailure(**failure)
            return cls(EndCause(body["cause"]), int(body["group_rank"]), given)
        except (KeyError, TypeError, ValueError) as bad:
            raise _foreign(raw) from bad


@dataclass(frozen=True)
class Introduction:
    """What one node says of itself; `failures` are those of the run that it knows of.

    `address` is the one under which it is to be reached where it differs from what its rendezvous says.
    """

    role: str
    slots: int
    failures: int = 0
    address: str = ""

    def encode(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @classmethod
    def decode(cls, raw: bytes) -> Introduction:
        """The introduction in `raw`. Raises `RendezvousStateError` where it is none."""
        body = _parsed(raw)
        try:
            told = (str(body["role"]), int(body["slots"]), int(body["failures"]))
            return cls(*told, str(body.get("address", "")))
        except (KeyError, TypeError, ValueError) as bad:
            raise _foreign(raw) from bad


class Board:
    """One agent's view of its round's store. Errors of the store are raised as they are."""

    def __init__(self, store: Store, rank: int, world_size: int, clock: Clock) -> None:
        self._store = PrefixedStore(_SPACE, store)
        self._rank = rank
        self._world_size = world_size
        self._clock = clock
        self._beats = 0
        self._seen: dict[int, tuple[bytes, float]] = {}

    def introduce(self, mine: Introduction, timeout_s: float) -> list[Introduction]:
        """What each node says of itself, by group rank. Raises `RanksMissing` after the time; ask again."""
        raws = coordination.synchronize(
            self._store, mine.encode(), self._rank, self._world_size, "introductions", timeout_s
        )
        return [Introduction.decode(raw) for raw in raws]

    def end(self) -> RoundEnd | None:
        """How the round ended, or None while it goes on."""
        return RoundEnd.decode(self._store.get(_END, 0)) if self._store.check([_END]) else None

    def end_round(self, wanted: RoundEnd) -> RoundEnd:
        """End the round, unless it is over; the end that stands."""
        return RoundEnd.decode(self._store.compare_set(_END, b"", wanted.encode()))

    def beat(self) -> None:
        """Show that this agent goes on while its workers run."""
        self._beats += 1
        self._store.set(_beat(self._rank), str(self._beats))

    def finish(self) -> None:
        """Show that this node's workers have succeeded."""
        self._store.set(_beat(self._rank), _DONE)

    def silences(self) -> dict[int, float]:
        """For each other node that has not finished: how long its beat has stood still, as watched here."""
        now_s = self._clock.monotonic_s()
        for rank in range(self._world_size):
            known = self._seen.get(rank, (b"", now_s))
            if rank == self._rank or known[0] == _DONE:
                continue
            key = _beat(rank)
            shown = self._store.get(key, 0) if self._store.check([key]) else b""
            self._seen[rank] = known if shown == known[0] else (shown, now_s)
        return {rank: now_s - at_s for rank, (shown, at_s) in self._seen.items() if shown != _DONE}


def _beat(rank: int) -> str:
    return f"beats/{rank}"


def _parsed(raw: bytes) -> dict[str, Any]:
    try:
        body = json.loads(raw)
    except (ValueError, RecursionError) as bad:
        raise _foreign(raw) from bad
    if not isinstance(body, dict):
        raise _foreign(raw)
    return body


def _foreign(raw: bytes) -> RendezvousStateError:
    return RendezvousStateError(
        f"what stands in the round's store below {_SPACE} was not written by an agent of this version: "
        f"{raw[:80]!r}; use one version on all nodes, and keys of your own"
    )
