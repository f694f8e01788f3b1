"""The run record: the frozen values that stand under its keys (`keys.py`).

Every value but `Presence`, `BatchBeat` and `Bell` is created once and never changes. Their bytes are made and
read by `codec.py`.
"""

from __future__ import annotations

from enum import Enum
from typing import ClassVar, Final

from hpc_elastic.rendezvous.history import History
from hpc_elastic.rendezvous.sequels import Continued, StaysAway
from hpc_elastic.values import dataclass


class NodeState(str, Enum):
    """What a node says of itself in its presence."""

    JOINING = "joining"  # wants to be a member of the next round
    CONFIRMED = "confirmed"  # member of `round`, ready to start or running
    DONE = "done"  # its workers of `round` have all finished
    DRAINING = "draining"  # will leave after `round`
    LEFT = "left"  # has left; `outcome` says how


class Outcome(str, Enum):
    """How a node's part in an attempt ended."""

    DONE = "done"
    SAVED = "saved"
    UNSAVED = "unsaved"
    FAILED = "failed"


class Cause(str, Enum):
    """Why a round ended, or is asked to."""

    SUCCESS = "success"
    WORKER_FAILED = "worker failed"
    NO_PROGRESS = "no progress"
    TIMER_EXPIRED = "timer expired"
    MEMBER_LOST = "member lost"
    MEMBER_LEFT = "member left"
    MEMBERS_JOINING = "members joining"
    DRAIN = "drain"
    NEWER_ATTEMPT = "newer attempt"

    @property
    def is_failure(self) -> bool:
        """Whether a worker brought it about: by failing, or by not going on until it was ended."""
        return self in (Cause.WORKER_FAILED, Cause.NO_PROGRESS, Cause.TIMER_EXPIRED)


class Reason(str, Enum):
    """Why an attempt, or one node, has to stop."""

    PREEMPTED = "preempted"
    TIME_LIMIT = "time limit"
    CANCELLED = "cancelled"
    REQUEUED = "requeued"  # by a person, or preempted where there is no grace time
    NODE_FAILURE = "node failure"
    USER = "told by the user"
    MEMBERSHIP = "membership"
    UNKNOWN = "unknown"

    @property
    def in_words(self) -> str:
        """The same for a sentence."""
        return "cause not known" if self is Reason.UNKNOWN else self.value


class Scope(str, Enum):
    """Whom a notice concerns: all nodes of the job that heard it, or that one node alone.

    The nodes of a job are the whole run, but for those of other jobs that have joined it.
    """

    RUN = "run"
    NODE = "node"


GUESTS: Final = "guests"
"""What jobs belong to that have joined the run of another."""


@dataclass(frozen=True)
class Attempt:
    """`attempts/<k>`: one Slurm start of the run. `nodes` is the job's node order, if known.

    `share` names what the job belongs to where it shares the run with other jobs: the array of a pool, or
    `GUESTS`. Such an attempt is replaced by a later start of the same job alone, and replaces no other.
    """

    TYPE: ClassVar[str] = "attempt"
    number: int
    cluster: str
    job_id: str
    array_task: str
    restart_count: int
    started_at: str
    nodes: tuple[str, ...]
    writer: str
    share: str = ""

    @property
    def job(self) -> str:
        """The job, over all its starts."""
        return f"{self.cluster}/{self.job_id}/{self.array_task}"

    def is_replaced_by(self, newer: Attempt) -> bool:
        """Whether the run goes on in the later start `newer` instead of this one."""
        return newer.job == self.job or not (newer.share or self.share)

    def is_start_of(self, cluster: str, job_id: str, array_task: str, restart_count: int) -> bool:
        """Whether this is the attempt of the given start of a job."""
        mine = (self.cluster, self.job_id, self.array_task, self.restart_count)
        return mine == (cluster, job_id, array_task, restart_count)


@dataclass(frozen=True)
class Presence:
    """`nodes/<node>`: what one node says of itself; written by that node alone.

    `beat` rises with every write. `order` is the node's place in the job's node order. `port` is
    held open by the agent until the round that may use it as master port has started. `step` is
    the highest step its ranks have reached, published once `drain_seen` names the round. `job` is the
    job of the node where it shares the run with others: of its starts only the latest counts. At the UDP
    port `ear` it can be told to look at the bell (0: it cannot).
    """

    TYPE: ClassVar[str] = "presence"
    node: str
    attempt: int
    name: str
    order: int
    host: str
    address: str
    port: int
    slots: int
    role: str
    state: NodeState
    round: int
    beat: int
    drain_seen: int = 0
    step: int = -1
    outcome: Outcome | None = None
    reason: str = ""
    stopped: int = 0
    claim: int = 0
    job: str = ""
    ear: int = 0


@dataclass(frozen=True)
class Member:
    """One node of a round; its place in `Round.members` is its group rank."""

    node: str
    name: str
    slots: int
    role: str
    address: str
    ear: int = 0


@dataclass(frozen=True)
class Round:
    """`rounds/<n>`: one agreed membership. Group rank = place in `members`.

    `failures` counts the settled failures of the run before this round, `changes` its settled
    membership changes; every worker of the round sees the same two numbers. `left_out` names the nodes that
    it does without because rounds have ended by them again and again. `shared` are those of `attempts`
    whose jobs share the run with others.
    """

    TYPE: ClassVar[str] = "round"
    number: int
    attempts: tuple[int, ...]
    members: tuple[Member, ...]
    master_address: str
    master_port: int
    why: str
    failures: int
    changes: int
    created_at: str
    writer: str
    history: History = History()
    left_out: tuple[str, ...] = ()
    shared: tuple[int, ...] = ()

    @property
    def world_size(self) -> int:
        """The number of workers."""
        return sum(member.slots for member in self.members)

    def group_rank(self, node: str) -> int | None:
        """The place of `node` in this round, or None if it is no member."""
        for rank, member in enumerate(self.members):
            if member.node == node:
                return rank
        return None


@dataclass(frozen=True)
class Closed:
    """`rounds/<n>` where the run is closed: nothing follows a success; a failure binds its attempt.

    `last_round` is the round that succeeded or failed; `exit_code` what an agent ends with;
    `failures` and `changes` are the settled counts that the next round goes on from. `node`, by its name,
    and `rank` are those of the failure that it came to this by, where it was one. Of a pool, `share` names
    the array: its elements that start later are bound as well.
    """

    TYPE: ClassVar[str] = "closed"
    number: int
    attempt: int
    succeeded: bool
    last_round: int
    exit_code: int
    message: str
    created_at: str
    writer: str
    failures: int = 0
    changes: int = 0
    node: str = ""
    rank: int = -1
    share: str = ""

    def binds(self, attempt: Attempt) -> bool:
        """Whether nothing follows for `attempt`, as long as this is the newest number.

        Guests do not open a run again that is closed: that is for the job whose run it is.
        """
        bound = (GUESTS, self.share) if self.share else (GUESTS,)
        return self.succeeded or self.attempt >= attempt.number or attempt.share in bound


@dataclass(frozen=True)
class Verdict:
    """`rounds/<n>.verdict`: whether the round started. Nobody starts workers before reading it."""

    TYPE: ClassVar[str] = "verdict"
    round: int
    started: bool
    why: str
    created_at: str
    writer: str


@dataclass(frozen=True)
class Drain:
    """`rounds/<n>.drain`: the round is asked to stop at an agreed step, within `seconds_left`.

    `seconds_left` counts from when a reader first saw the record, on the reader's own clock.
    `leaving` names the nodes that will not be in the next round; `everybody` that all leave.
    """

    TYPE: ClassVar[str] = "drain"
    round: int
    reason: Reason
    seconds_left: float
    everybody: bool
    leaving: tuple[str, ...]
    created_at: str
    writer: str


@dataclass(frozen=True)
class Stop:
    """`rounds/<n>.stop`: every rank of the round stops when it reaches `step`."""

    TYPE: ClassVar[str] = "stop"
    round: int
    step: int
    writer: str


@dataclass(frozen=True)
class End:
    """`rounds/<n>.end`: the provisional cause, by whoever saw one first.

    `rank` is the global rank of the failed worker (-1: none), `exit_code` as `subprocess` has it
    (negative for a signal), `step` the highest progress known to the writer (-1: none), `ran_s` how long the
    workers of `node` had run (-1: not known).
    """

    TYPE: ClassVar[str] = "end"
    round: int
    cause: Cause
    node: str
    rank: int
    exit_code: int
    message: str
    step: int
    created_at: str
    writer: str
    ran_s: float = -1.0


@dataclass(frozen=True)
class Settled:
    """`rounds/<n>.settled`: the cause that counts, by whoever forms the next round."""

    TYPE: ClassVar[str] = "settled"
    round: int
    cause: Cause
    node: str
    why: str
    created_at: str
    writer: str


@dataclass(frozen=True)
class Notice:
    """`attempts/<k>.notice`: this attempt will have to stop.

    `seconds_left` is what its writer knew when it wrote; it may be bettered by `attempts/<k>.cause`
    (the same value again, written once the job's record has been asked).
    """

    TYPE: ClassVar[str] = "notice"
    attempt: int
    reason: Reason
    scope: Scope
    seconds_left: float
    node: str
    signal: str
    created_at: str
    writer: str


@dataclass(frozen=True)
class Requeue:
    """`attempts/<k>.requeue.<i>`: who asks Slurm to start the job again, and how it went."""

    TYPE: ClassVar[str] = "requeue"
    attempt: int
    claim: int
    job: str
    created_at: str
    writer: str


@dataclass(frozen=True)
class BatchBeat:
    """`attempts/<k>.batch`: that the batch side is there, which asks for the requeue in the end.

    `beat` rises with every write, like that of a presence. The record is in the run directory alone.
    """

    TYPE: ClassVar[str] = "batch"
    attempt: int
    beat: int
    writer: str


@dataclass(frozen=True)
class SeatClaim:
    """`attempts/<k>.seat.<name>.<i>`: the one agent that speaks for the node `name`."""

    TYPE: ClassVar[str] = "seat"
    attempt: int
    name: str
    claim: int
    writer: str


@dataclass(frozen=True)
class BackendChoice:
    """`attempts/<k>.backend`: where the live part of this attempt lies, by the first of its agents.

    `endpoint`, `prefix` and `cluster` say which etcd it is, and how its other members may be found.
    """

    TYPE: ClassVar[str] = "backend"
    attempt: int
    backend: str
    endpoint: str
    prefix: str
    cluster: str
    why: str
    chosen_at: str
    writer: str


@dataclass(frozen=True)
class Bell:
    """`bell`: which names exist by now. It may be lost or late; `announcements.py` lives with that.

    `attempt` and `round` are the newest numbers, `topic` is the key that it was rung for, `known`
    has the keys of the newest records and of nodes that have come lately.
    """

    TYPE: ClassVar[str] = "bell"
    attempt: int
    round: int
    topic: str
    writer: str
    known: tuple[str, ...] = ()


Record = (
    Attempt
    | Presence
    | Round
    | Closed
    | Verdict
    | Drain
    | Stop
    | End
    | Settled
    | Notice
    | Requeue
    | Continued
    | StaysAway
    | BatchBeat
    | SeatClaim
    | BackendChoice
    | Bell
)
