"""The duty of the last agent out where the batch host is lost: nobody else is left to end the job.

Under `--no-kill` a job goes on without its batch host, and keeps its nodes when the last agent has gone.
The batch side beats as long as it lives; where it never did, there is none that would ask for a requeue.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from hpc_elastic import settings
from hpc_elastic.backends.base import Backend
from hpc_elastic.clock import SYSTEM_CLOCK, Clock
from hpc_elastic.rendezvous import keys
from hpc_elastic.rendezvous.codec import decode_as
from hpc_elastic.rendezvous.record import BatchBeat
from hpc_elastic.slurm.roll import Mark, Roll
from hpc_elastic.values import dataclass

_FIRST_PAUSE_S: Final = 0.05
_STAGGER_S: Final = 1.0
_LONGEST_STAGGER_S: Final = 10.0


@dataclass(frozen=True)
class LastOut:
    """Asked by an agent of attempt `attempt` that has left. Raises `BackendUnavailable`.

    `ledger` is the run directory, `live` where the agents meet. `batch_node` is the node of the batch
    side, `name` that of this agent. `members` are the nodes of its last round.
    """

    ledger: Backend
    live: Backend
    attempt: int
    name: str
    batch_node: str
    members: Sequence[str]
    heartbeat_s: float
    clock: Clock = SYSTEM_CLOCK

    def place(self) -> int | None:
        """The place among those that have to act, 0 first; None where there is nothing to do.

        It takes a moment where the batch side lives, and the liveness time where it seems to be lost.
        """
        if self.name == self.batch_node or self._beat() is None:
            return None
        roll = Roll(self.live, self.attempt)
        roll.look(self.clock.monotonic_s())
        if not self._is_batch_lost(roll):
            return None
        roll.look(self.clock.monotonic_s())
        left = [mark.presence for mark in roll.marks if mark.has_left]
        if any(mark.has_moved and not mark.has_left for mark in roll.marks):
            return None  # whoever goes on looks when it leaves
        there = sorted((one.order, one.name) for one in left if one.name != self.batch_node)
        return next((place for place, (_, name) in enumerate(there) if name == self.name), 0)

    def _is_batch_lost(self, roll: Roll) -> bool:
        """Watched for the liveness time, with neither a beat of the batch side nor one of its agent."""
        began_s, pause_s, first = self.clock.monotonic_s(), _FIRST_PAUSE_S, self._beat()
        while self.clock.monotonic_s() - began_s <= settings.LIVENESS_HEARTBEATS * self.heartbeat_s:
            agent = self._agent_there(roll)
            if agent is not None and (agent.has_left or agent.has_moved):
                return False
            self.clock.sleep_s(pause_s)
            pause_s = min(2 * pause_s, self.heartbeat_s / 2)
            if self._beat() != first:
                return False
            roll.look_at(self.batch_node, self.clock.monotonic_s())
        return True

    def _agent_there(self, roll: Roll) -> Mark | None:
        """The agent on the batch host, if it was in the last round: then it leaves when this one does."""
        if self.batch_node not in self.members:
            return None
        found = [mark for mark in roll.marks if mark.presence.name == self.batch_node]
        return found[-1] if found else None

    def _beat(self) -> int | None:
        key = keys.batch_key(self.attempt)
        raw = self.ledger.read(key)
        return None if raw is None else decode_as(raw, BatchBeat, key=key).beat


def stagger(place: int, wait: Callable[[float], bool]) -> bool:
    """Give those before this one the time to act; whether nobody has. `wait` says that a signal came."""
    return place == 0 or not wait(min(place * _STAGGER_S, _LONGEST_STAGGER_S))
