"""Where the output of an API agent's workers goes, in the forms that users of torchrun know."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from hpc_elastic.errors import UsageError
from hpc_elastic.values import dataclass
from hpc_elastic.workers.streams import Console, Std, Streams, parse_ranks

GivenStreams = str | int | Mapping[int, int] | None


@dataclass(frozen=True)
class LogsSpecs:
    """All output goes to files below `log_dir`; `redirects`, `tee` and the filter choose what is shown too.

    Without any of them the console shows all of global rank 0.
    """

    log_dir: str | Path | None = None
    redirects: GivenStreams = None
    tee: GivenStreams = None
    local_ranks_filter: str | Collection[int] | None = None

    def console(self) -> Console:
        """What is shown. Raises `UsageError` that begins with the field's name."""
        redirects = streams("redirects", self.redirects)
        return Console(
            tee=streams("tee", self.tee),
            redirects=Streams() if redirects is None else redirects,
            local_ranks=self._filter(),
        )

    def _filter(self) -> frozenset[int] | None:
        given: Any = self.local_ranks_filter
        if given is None:
            return None
        if isinstance(given, str):
            return parse_ranks(given, "logs_specs.local_ranks_filter")
        if not isinstance(given, Collection) or not all(isinstance(rank, int) for rank in given):
            raise UsageError(
                f"logs_specs.local_ranks_filter={given!r}: expected local ranks, or a text like 0,2 or 0-3"
            )
        return frozenset(given)


def streams(field: str, given: GivenStreams) -> Streams | None:
    """A choice of streams from a text, a number, or a mapping from local ranks. Raises `UsageError`."""
    if given is None or isinstance(given, str):
        return None if given is None else Streams.parse(given, field)
    try:
        if isinstance(given, Mapping):
            return Streams(by_rank={int(rank): _std(std) for rank, std in given.items()})
        return Streams(everybody=_std(given))
    except (OverflowError, TypeError, ValueError):
        raise UsageError(
            f"{field}={given!r}: expected 0 (none), 1 (stdout), 2 (stderr) or 3 (both), or one of them for "
            "each local rank"
        ) from None


def _std(given: int) -> Std:
    if int(given) not in range(4):
        raise ValueError(given)
    return Std(int(given))
