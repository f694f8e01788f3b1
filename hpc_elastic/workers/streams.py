"""Which streams of which ranks go to the console: torchrun's `--tee`, `--redirects`, `--local-ranks-filter`.

Every stream of every rank always goes to its file in the run directory. These options only choose
what is shown besides.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntFlag

from hpc_elastic.errors import UsageError
from hpc_elastic.values import dataclass, field


class Std(IntFlag):
    """A set of output streams, numbered as torchrun numbers them."""

    NONE = 0
    OUT = 1
    ERR = 2
    ALL = 3


@dataclass(frozen=True)
class Streams:
    """A choice of streams: one for all local ranks, or one for each rank named."""

    everybody: Std = Std.NONE
    by_rank: Mapping[int, Std] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str, option: str) -> Streams:
        """`3`, or `0:1,1:2`; a rank that is not named has none. Raises `UsageError`."""
        if ":" not in text:
            return cls(everybody=_std(text.strip(), option, text))
        chosen: dict[int, Std] = {}
        for part in text.split(","):
            rank, _, std = (piece.strip() for piece in part.partition(":"))
            if not rank.isdecimal() or int(rank) in chosen:
                raise _refused(option, text)
            chosen[int(rank)] = _std(std, option, text)
        return cls(by_rank=chosen)

    def of(self, local_rank: int) -> Std:
        """The streams of one local rank."""
        return self.by_rank.get(local_rank, self.everybody)


@dataclass(frozen=True)
class Console:
    """What the agent's own output shows of its workers. Without options: global rank 0, all of it."""

    tee: Streams | None = None
    redirects: Streams = field(default_factory=Streams)
    local_ranks: frozenset[int] | None = None

    @classmethod
    def parse(cls, *, tee: str | None, redirects: str | None, local_ranks_filter: str | None) -> Console:
        """From the options as given, None where absent. Raises `UsageError`."""
        return cls(
            tee=None if tee is None else Streams.parse(tee, "--tee"),
            redirects=Streams() if redirects is None else Streams.parse(redirects, "--redirects"),
            local_ranks=parse_ranks(local_ranks_filter) if local_ranks_filter else None,
        )

    def shows(self, local_rank: int, global_rank: int) -> Std:
        """The streams of this rank that are shown.

        `--tee` says which; a filter alone shows both streams of its ranks; `--redirects` sends a
        stream to its file only, unless `--tee` names it.
        """
        if self.local_ranks is not None and local_rank not in self.local_ranks:
            return Std.NONE
        if self.tee is not None:
            return self.tee.of(local_rank)
        if self.local_ranks is None and global_rank != 0:
            return Std.NONE
        return Std.ALL & ~self.redirects.of(local_rank)


@dataclass(frozen=True)
class Filters:
    """The texts of which a line must have one in order to go to its stream's aggregate log too."""

    out: tuple[str, ...] = ()
    err: tuple[str, ...] = ()

    def of(self, stream: Std) -> tuple[str, ...]:
        """Those of one stream; empty for none."""
        return self.out if stream is Std.OUT else self.err


def parse_ranks(text: str, option: str = "--local-ranks-filter") -> frozenset[int]:
    """`0,2` or `0-3` or both, as a set of local ranks. Raises `UsageError`."""
    ranks: set[int] = set()
    for part in text.split(","):
        first, dash, last = (piece.strip() for piece in part.partition("-"))
        last = last if dash else first
        if not first.isdecimal() or not last.isdecimal() or not int(first) <= int(last) < 65536:
            raise UsageError(f"{option} {text!r}: give ranks like 0,2 or a range like 0-3")
        ranks.update(range(int(first), int(last) + 1))
    return frozenset(ranks)


def _std(number: str, option: str, text: str) -> Std:
    if number not in {"0", "1", "2", "3"}:
        raise _refused(option, text)
    return Std(int(number))


def _refused(option: str, text: str) -> UsageError:
    return UsageError(
        f"{option} {text!r}: give 0 (none), 1 (stdout), 2 (stderr) or 3 (both) for all ranks, "
        "or one for each local rank, like 0:1,1:2"
    )
