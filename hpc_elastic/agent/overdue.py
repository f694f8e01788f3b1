"""Which ranks of a node do not go on. Pure: what they show comes in, and who is overdue comes out."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final

from hpc_elastic.rendezvous.record import Cause
from hpc_elastic.values import dataclass
from hpc_elastic.workers.page import RankView

# A rank is in its first step until it has told a step this often. A script tells one or two in each, at its
# beginning or at its end, and a compiler may need its time before the second as well.
FIRST_SIGNS: Final = 3


class Source(str, Enum):
    """What counts as going on."""

    PROGRESS = "progress"  # each rank by itself, by the steps that it tells; only those with a context
    OUTPUT = "output"  # all ranks of the node together, by whatever they print


@dataclass(frozen=True)
class Limits:
    """How long ranks may show no sign of going on, and how long in their first step."""

    timeout_s: float
    first_step_s: float
    source: Source = Source.PROGRESS


@dataclass(frozen=True)
class Overdue:
    """Ranks that have to be ended, by local rank, the most likely culprit first."""

    slots: tuple[int, ...]
    cause: Cause
    why: Mapping[int, str]


class LivedTime:
    """Time as an agent has lived through it.

    The host may be suspended, or the agent stopped (Slurm suspends whole jobs): of a gap between two looks
    that is longer than `longest_gap_s` the rest does not count, for the ranks may have slept through it too.
    """

    def __init__(self, began_s: float, longest_gap_s: float) -> None:
        self._longest_gap_s = longest_gap_s
        self._last_s = began_s
        self._slept_s = 0.0
        self.slept_before_s = 0.0

    def at(self, now_s: float) -> float:
        """The lived time of a look at `now_s`."""
        self.slept_before_s = self._slept_s
        self._slept_s += max(0.0, now_s - self._last_s - self._longest_gap_s)
        self._last_s = now_s
        return now_s - self._slept_s


class Watch:
    """What the ranks of one node have shown so far in one round. Without limits only scopes are watched."""

    def __init__(self, limits: Limits | None, began_s: float, longest_gap_s: float) -> None:
        self._limits = limits
        self._time = LivedTime(began_s, longest_gap_s)
        self._began_s = began_s
        self._seen: dict[int, tuple[tuple[int, ...], float]] = {}
        self._scopes: dict[int, tuple[float, float]] = {}

    def look(self, now_s: float, views: Mapping[int, RankView], output_bytes: int = 0) -> Overdue | None:
        """Who is overdue among the running ranks `views`, by local rank; None where all go on.

        `output_bytes` is what all ranks have printed in this round, where that is the source.
        """
        lived_s = self._time.at(now_s)
        expired = self._expired(lived_s, views)
        if expired or self._limits is None:
            return Overdue(tuple(expired), Cause.TIMER_EXPIRED, expired) if expired else None
        if self._limits.source is Source.OUTPUT:
            silent = self._silent(lived_s, self._limits, views, output_bytes)
        else:
            silent = self._standing_still(lived_s, self._limits, views)
        return Overdue(tuple(silent), Cause.NO_PROGRESS, silent) if silent else None

    def _expired(self, lived_s: float, views: Mapping[int, RankView]) -> dict[int, str]:
        found = {}
        for slot, view in views.items():
            at_s, after_s = view.expires_at_s, view.expires_after_s
            if not at_s:
                continue
            if self._scopes.get(slot, (0.0, 0.0))[0] != at_s:
                # It may have been entered before a pause of which this is the first look.
                self._scopes[slot] = (at_s, at_s - self._time.slept_before_s)
            if lived_s > self._scopes[slot][1]:
                found[slot] = f"a scope that was to be left within {after_s:g} s has expired"
        return found

    def _standing_still(
        self, lived_s: float, limits: Limits, views: Mapping[int, RankView]
    ) -> dict[int, str]:
        tell_steps = any(view.signs >= FIRST_SIGNS for view in views.values())
        found = []
        for slot, view in views.items():
            since_s = self._since_s(slot, (view.signs, view.step, view.progress, view.saved_step), lived_s)
            # Where others tell their steps, a rank that never does has left that to them.
            is_judged = view.attached and not view.leaving and (view.signs > 0 or not tell_steps)
            limit_s = limits.timeout_s if view.signs >= FIRST_SIGNS else limits.first_step_s
            if is_judged and lived_s - since_s > limit_s:
                step = max(view.step, view.progress)
                late = f"no progress for {limit_s:g} s, step {step} was the last"
                found.append(
                    (step, since_s, slot, late if step >= 0 else f"no first step within {limit_s:g} s")
                )
        return {slot: why for _, _, slot, why in sorted(found)}

    def _silent(
        self, lived_s: float, limits: Limits, views: Mapping[int, RankView], output_bytes: int
    ) -> dict[int, str]:
        since_s = self._since_s(-1, (output_bytes,), lived_s)
        limit_s = limits.timeout_s if output_bytes > 0 else limits.first_step_s
        if lived_s - since_s <= limit_s:
            return {}
        return dict.fromkeys(sorted(views), f"no output of any rank of its node for {limit_s:g} s")

    def _since_s(self, slot: int, sign: tuple[int, ...], lived_s: float) -> float:
        """Since when this sign stands: no sign at all, since the beginning of the round."""
        known = self._seen.get(slot)
        if known is None or known[0] != sign:
            is_none_yet = known is None and sign[0] == 0
            known = self._seen[slot] = (sign, self._began_s if is_none_yet else lived_s)
        return known[1]
