"""What the agent's machine remembers: one frozen value per agent, and how it changes."""

from __future__ import annotations

from enum import Enum
from typing import Final

from hpc_elastic.agent.actions import Action, Leave
from hpc_elastic.agent.inputs import Timed, WorkerEnd
from hpc_elastic.agent.notices import Heard
from hpc_elastic.rendezvous.record import Reason
from hpc_elastic.values import dataclass, replace

# Between raising the flag and reading the counters: a rank writes its step before it reads the
# flag, so one that has not seen the flag has written its step long before this is over.
STEP_SETTLE_S: Final = 0.05
# A signal to the whole job step reaches workers and agent within this.
DOUBT_S: Final = 0.5
# The same for a plain worker that ended with 0: done, or saved because of a TERM that we have yet
# to hear. Every run of a plain script ends this much later.
DONE_DOUBT_S: Final = 0.1
# How long the record may take to answer a notice before this node stops its workers by itself.
ANSWER_S: Final = 5.0
# Killing must leave time for the logs, the record and the sweep.
_MARGIN_SHARE: Final = 0.1
_MARGIN_MIN_S: Final = 0.2
_MARGIN_MAX_S: Final = 2.0


class Phase(str, Enum):
    """Where an agent is in its life."""

    JOINING = "joining"  # waits for a round
    RUNNING = "running"  # workers run
    DRAINING = "draining"  # workers were told to save and to stop
    STOPPING = "stopping"  # workers are being ended
    FINISHED = "finished"  # workers are done; waits for those of the other nodes
    GONE = "gone"  # has left


@dataclass(frozen=True)
class StopOrder:
    """The stop that stands for this node. `leaving` if it is to go afterwards."""

    reason: Reason
    deadline_s: float
    leaving: bool


@dataclass(frozen=True)
class Agent:
    """One agent between two inputs.

    `ends` is set once no worker runs while their fate is not decided. `goal` is what follows
    STOPPING; without one the agent joins the next round. `lost` keeps an error that must not
    disturb workers that are saving.
    """

    shutdown_timeout_s: float
    phase: Phase = Phase.JOINING
    order: StopOrder | None = None
    heard: Heard | None = None
    ends: tuple[WorkerEnd, ...] | None = None
    suspect: WorkerEnd | None = None
    goal: Leave | None = None
    lost: Leave | None = None
    timers: tuple[tuple[type[Timed], float], ...] = ()

    @property
    def must_leave(self) -> bool:
        """Whether a notice stands for this node, be it heard or read."""
        return self.heard is not None or (self.order is not None and self.order.leaving)

    def due(self, now_s: float) -> Timed | None:
        """The timed input whose time has come, the earliest first."""
        ready = [(at_s, kind) for kind, at_s in self.timers if at_s <= now_s]
        if not ready:
            return None
        kind = min(ready, key=lambda entry: entry[0])[1]
        return kind()

    def next_due_s(self) -> float | None:
        """When the next timed input is due."""
        return min((at_s for _, at_s in self.timers), default=None)

    def with_timer(self, kind: type[Timed], at_s: float) -> Agent:
        """The same with `kind` due at `at_s`, wherever it stood before."""
        return replace(self, timers=(*self.without_timer(kind).timers, (kind, at_s)))

    def without_timer(self, kind: type[Timed]) -> Agent:
        """The same with `kind` not due at all."""
        return replace(self, timers=tuple(entry for entry in self.timers if entry[0] is not kind))


@dataclass(frozen=True)
class Step:
    """What an input leads to."""

    agent: Agent
    actions: tuple[Action, ...] = ()


def margin_s(left_s: float) -> float:
    """How long before a deadline that is `left_s` away everything must be dead."""
    return min(_MARGIN_MAX_S, max(_MARGIN_MIN_S, _MARGIN_SHARE * left_s))
