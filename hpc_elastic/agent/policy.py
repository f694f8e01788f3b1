"""What an API agent does about the state of its workers and the end of its round: pure tables."""

from __future__ import annotations

from enum import Enum
from typing import Final

from hpc_elastic.agent.api import WorkerState
from hpc_elastic.agent.board import EndCause


class Next(Enum):
    """What follows."""

    GO_ON = "go on"
    LEAVE_DONE = "leave, done"  # every worker of every node has succeeded
    MEET = "meet the others at the exit"
    END_FAILED = "end the round: a worker has failed"
    END_MEMBERS = "end the round: its members change"
    RESTART = "restart the workers"
    GIVE_UP = "leave, failed"
    REFUSE = "an error that names the state"


_OF_STATE: Final = {
    WorkerState.SUCCEEDED: Next.MEET,
    WorkerState.FAILED: Next.END_FAILED,
    WorkerState.UNHEALTHY: Next.END_FAILED,
    WorkerState.HEALTHY: Next.GO_ON,
    # Nothing is known, or nothing runs: to go on would be to guess.
    WorkerState.UNKNOWN: Next.REFUSE,
    WorkerState.INIT: Next.REFUSE,
    WorkerState.STOPPED: Next.REFUSE,
}


def of_state(state: WorkerState, nodes_waiting: int) -> Next:
    """What the state of this node's workers asks for, in a round that goes on."""
    wanted = _OF_STATE[state]
    return Next.END_MEMBERS if wanted is Next.GO_ON and nodes_waiting > 0 else wanted


def of_end(cause: EndCause, failures: int, max_restarts: int) -> Next:
    """What the end of a round asks for; `failures` are those of the whole run, this one included."""
    if cause is EndCause.DONE:
        return Next.LEAVE_DONE
    if cause is EndCause.FAILED and failures > max_restarts:
        return Next.GIVE_UP
    return Next.RESTART
