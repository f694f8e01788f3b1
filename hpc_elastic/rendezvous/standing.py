"""What a node brings to the rendezvous, and what it is told: frozen values."""

from __future__ import annotations

from hpc_elastic import settings
from hpc_elastic.errors import HpcElasticError
from hpc_elastic.rendezvous.record import Closed, Drain, End, Notice, Round
from hpc_elastic.values import dataclass


@dataclass(frozen=True)
class Settings:
    """The rules one run is formed by. All durations in seconds.

    `expected_nodes` is how many nodes this attempt was given: the last call runs only while fewer
    than that have been seen. In a pool it is `max_nodes`. `pool`: this job shares the run with others.
    `nodes_are_given`: nobody else can come in this attempt, and an agent that is lost is not started again.
    `restart_backoff_s`, `same_failures` and `node_failures` are those of `faults.py`; 0 switches each off.
    """

    min_nodes: int
    max_nodes: int
    expected_nodes: int
    pool: bool = False
    nodes_are_given: bool = False
    max_restarts: int = settings.MAX_RESTARTS
    restart_backoff_s: float = settings.RESTART_BACKOFF_S
    same_failures: int = settings.SAME_FAILURES
    node_failures: int = settings.NODE_FAILURES
    heartbeat_s: float = settings.HEARTBEAT_S
    join_timeout_s: float = settings.JOIN_TIMEOUT_S
    last_call_s: float = settings.LAST_CALL_S
    join_window_s: float = settings.JOIN_WINDOW_S
    store_lost_s: float = settings.STORE_LOST_S
    shutdown_timeout_s: float = settings.SHUTDOWN_TIMEOUT_S
    allow_loopback: bool = False

    @property
    def liveness_s(self) -> float:
        """How long a beat must stand still, watched by one's own clock, to mean silence."""
        return settings.LIVENESS_HEARTBEATS * self.heartbeat_s


@dataclass(frozen=True)
class Seat:
    """Who this node is. `order` is its place in the job's node order, `slots` its workers, `ear` where it
    can be told to look at the bell.
    """

    name: str
    order: int
    host: str
    address: str
    slots: int
    role: str = "default"
    ear: int = 0


@dataclass(frozen=True)
class JobStart:
    """Which start of the run this is; equal for all its nodes, unequal after a requeue.

    `share` is that of the attempt: what the job belongs to where it shares the run with others.
    """

    cluster: str
    job_id: str
    array_task: str = ""
    restart_count: int = 0
    nodes: tuple[str, ...] = ()
    share: str = ""


@dataclass(frozen=True)
class Standing:
    """What this node knows of its run right now; the keeper replaces it as a whole.

    `round` is the newest round whose verdict `started` was read and of which this node is a
    member; `drain`, `stop_step` and `end` belong to it. `*_seen_at_s` are on this node's own
    monotonic clock. `waiting` counts nodes that wait and would fit under `max_nodes`. `closed`
    is set only where the closing binds this attempt. `error` is final for this node.
    """

    attempt: int
    node: str
    round: Round | None = None
    rank: int | None = None
    drain: Drain | None = None
    drain_seen_at_s: float | None = None
    stop_step: int | None = None
    end: End | None = None
    notice: Notice | None = None
    notice_seen_at_s: float | None = None
    waiting: int = 0
    failures: int = 0
    changes: int = 0
    closed: Closed | None = None
    error: HpcElasticError | None = None
    waiting_for: str = ""
