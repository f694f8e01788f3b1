"""Ends the ranks of this node that do not go on: finds them, takes everybody's stacks first, and says why."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from hpc_elastic.agent.overdue import Limits, Overdue, Source, Watch
from hpc_elastic.clock import Clock
from hpc_elastic.rendezvous.record import Cause
from hpc_elastic.values import dataclass
from hpc_elastic.workers.group import WorkerGroup
from hpc_elastic.workers.logs import LogFiles
from hpc_elastic.workers.page import Page, RankView
from hpc_elastic.workers.stacks import StackDump

# A dump takes milliseconds; a machine that is busy, or a log on a server that is slow, some more.
_DUMP_S: Final = 2.0
_DUMPING_LOOK_S: Final = 0.02
_SHORTEST_LOOK_S: Final = 0.05
_LOOKS: Final = 4  # in each time-out, so that one is found a quarter late at most
_LONGEST_GAP_S: Final = 2.0
_MOST_SIZES_S: Final = 1.0  # how often the sizes of logs are asked for


@dataclass(frozen=True)
class Condemned:
    """A rank that has to be ended, and what is to be said of it."""

    slot: int
    cause: Cause
    message: str


class Overseer:
    """Watches the ranks of one round; to be looked at often while it `is_dumping`. Nothing here waits."""

    def __init__(
        self,
        limits: Limits | None,
        page: Page,
        group: WorkerGroup,
        logs: dict[int, LogFiles],
        *,
        look_s: float,
        clock: Clock,
    ) -> None:
        self._limits = limits
        self._page = page
        self._group = group
        self._logs = logs
        self._clock = clock
        if limits is not None:
            look_s = max(_SHORTEST_LOOK_S, min(look_s, limits.timeout_s / _LOOKS))
        self._look_s = look_s
        now_s = clock.monotonic_s()
        self._watch = Watch(limits, now_s, max(2 * look_s, _LONGEST_GAP_S))
        self._printed = (0, now_s)
        self._found: Overdue | None = None
        self._dump: StackDump | None = None
        self._dump_until_s = 0.0

    def look(self, running: Iterable[int]) -> tuple[Condemned, ...]:
        """Who of the ranks `running` has to be ended; by local rank, the most likely culprit first."""
        now_s = self._clock.monotonic_s()
        views = {slot: self._page.rank(slot) for slot in running}
        overdue = self._watch.look(now_s, views, self._output_bytes(now_s))
        if self._dump is None:
            if overdue is not None:
                self._found, self._dump = overdue, StackDump(self._group, self._error_logs(views))
                self._dump_until_s = now_s + _DUMP_S
            return ()
        if not self._dump.is_complete() and now_s < self._dump_until_s:
            return ()
        return self._judgement(overdue, self._dump)

    def look_within_s(self) -> float:
        """How soon the next look has to be."""
        if self._dump is not None:
            return _DUMPING_LOOK_S
        now_s = self._clock.monotonic_s()
        ends = [view.expires_at_s - now_s for view in self._page.ranks() if view.expires_at_s]
        return max(_SHORTEST_LOOK_S, min([self._look_s, *ends]))

    def _judgement(self, overdue: Overdue | None, dump: StackDump) -> tuple[Condemned, ...]:
        # Who went on while stacks were written is spared. A dump is output, so silence is not asked again.
        found = self._found if self._is_by_output() else overdue
        self._found = self._dump = None
        if found is None:
            return ()
        folder = next(iter(self._logs.values())).err.parent
        everybody = f"; stacks of all ranks of its node: {folder}/*.err" if len(self._logs) > 1 else ""
        return tuple(
            Condemned(slot, found.cause, f"{found.why[slot]}; {dump.about(slot)}{everybody}")
            for slot in found.slots
        )

    def _is_by_output(self) -> bool:
        found = self._found
        by_output = self._limits is not None and self._limits.source is Source.OUTPUT
        return by_output and found is not None and found.cause is Cause.NO_PROGRESS

    def _error_logs(self, views: dict[int, RankView]) -> dict[int, Path]:
        return {slot: self._logs[slot].err for slot in views}

    def _output_bytes(self, now_s: float) -> int:
        if self._limits is None or self._limits.source is not Source.OUTPUT:
            return 0
        known, at_s = self._printed
        if now_s - at_s >= min(_MOST_SIZES_S, self._look_s):
            sizes = [_size(path) for each in self._logs.values() for path in (each.out, each.err)]
            known, at_s = sum(sizes), now_s
            self._printed = (known, at_s)
        return known


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
