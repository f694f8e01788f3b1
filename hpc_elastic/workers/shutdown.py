"""Ask, wait, insist: when each step of stopping workers is due. Pure; group.py acts on it."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from hpc_elastic.values import dataclass, replace

DUMP_BEFORE_KILL_S: Final = 0.5
GIVE_UP_AFTER_KILL_S: Final = 10.0
STRAGGLER_GRACE_S: Final = 1.0


class StopStep(IntEnum):
    """What is due, in this order."""

    WAIT = 0  # asked; the workers have until the deadline
    DUMP = 1  # nearly over: let them write their stacks
    KILL = 2  # over
    GIVE_UP = 3  # killed, and still there: a process stuck in the kernel


@dataclass(frozen=True)
class StopPlan:
    """One deadline for all workers of a node, on the agent's monotonic clock."""

    begun_at_s: float
    kill_at_s: float

    @classmethod
    def by(cls, deadline_s: float, *, now_s: float) -> StopPlan:
        """Kill at the deadline; one that has passed means now."""
        return cls(begun_at_s=now_s, kill_at_s=max(deadline_s, now_s))

    def hurried(self, deadline_s: float, *, now_s: float) -> StopPlan:
        """The same stop with an earlier deadline; a later one changes nothing."""
        return replace(self, kill_at_s=min(self.kill_at_s, max(deadline_s, now_s)))

    @property
    def dump_at_s(self) -> float:
        """When stacks are dumped: not before half of the time is over."""
        return max(self.kill_at_s - DUMP_BEFORE_KILL_S, (self.begun_at_s + self.kill_at_s) / 2)

    @property
    def give_up_at_s(self) -> float:
        return self.kill_at_s + GIVE_UP_AFTER_KILL_S

    def due(self, now_s: float) -> StopStep:
        """The last step whose time has come."""
        if now_s >= self.give_up_at_s:
            return StopStep.GIVE_UP
        if now_s >= self.kill_at_s:
            return StopStep.KILL
        return StopStep.DUMP if now_s >= self.dump_at_s else StopStep.WAIT

    def next_at_s(self, now_s: float) -> float:
        """When `due` will change next; the past once nothing is left."""
        for at_s in (self.dump_at_s, self.kill_at_s, self.give_up_at_s):
            if now_s < at_s:
                return at_s
        return self.give_up_at_s


@dataclass(frozen=True)
class SweepPlan:
    """What to do with processes that workers left behind, once the workers themselves are gone."""

    kill_at_s: float

    @classmethod
    def after(cls, stop: StopPlan, *, now_s: float) -> SweepPlan:
        """A short grace for helpers, inside the workers' own deadline."""
        return cls(kill_at_s=max(now_s, min(stop.kill_at_s, now_s + STRAGGLER_GRACE_S)))

    def hurried(self, deadline_s: float, *, now_s: float) -> SweepPlan:
        """The same with an earlier deadline."""
        return replace(self, kill_at_s=min(self.kill_at_s, max(deadline_s, now_s)))

    def due(self, now_s: float) -> StopStep:
        if now_s >= self.kill_at_s + GIVE_UP_AFTER_KILL_S:
            return StopStep.GIVE_UP
        return StopStep.KILL if now_s >= self.kill_at_s else StopStep.WAIT
