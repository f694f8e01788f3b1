"""What one node has seen and wants: frozen values, with times on its own monotonic clock."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from hpc_elastic.rendezvous.record import (
    Attempt,
    Cause,
    Closed,
    Drain,
    End,
    Notice,
    Outcome,
    Presence,
    Reason,
    Round,
    Scope,
    Settled,
    Stop,
    Verdict,
)
from hpc_elastic.values import dataclass, field, replace


@dataclass(frozen=True)
class RoundView:
    """One number below `rounds/`, with everything that has been read of it. Number 0 is before the first."""

    number: int = 0
    record: Round | Closed | None = None
    seen_at_s: float = 0.0
    verdict: Verdict | None = None
    verdict_seen_at_s: float = 0.0
    drain: Drain | None = None
    drain_seen_at_s: float = 0.0
    stop: Stop | None = None
    end: End | None = None
    end_seen_at_s: float = 0.0
    settled: Settled | None = None

    @cached_property
    def proposal(self) -> Round | None:
        """The membership, unless this number is a closing."""
        return self.record if isinstance(self.record, Round) else None

    @cached_property
    def closing(self) -> Closed | None:
        """The closing, if this number is one."""
        return self.record if isinstance(self.record, Closed) else None

    @property
    def is_pending(self) -> bool:
        """Proposed, and not yet judged."""
        return self.proposal is not None and self.verdict is None

    @property
    def has_started(self) -> bool:
        """Whether its workers were allowed to start."""
        return self.proposal is not None and self.verdict is not None and self.verdict.started

    @property
    def is_running(self) -> bool:
        """Started, and no end is known."""
        return self.has_started and self.end is None

    @cached_property
    def members(self) -> tuple[str, ...]:
        """The nodes in rank order; none for a closing."""
        return tuple(member.node for member in self.proposal.members) if self.proposal else ()

    @cached_property
    def places(self) -> Mapping[str, int]:
        """The rank of each node."""
        return {node: place for place, node in enumerate(self.members)}


@dataclass(frozen=True)
class Sighting:
    """The last read presence of a node.

    `beat_since_s` is when its present beat was first seen, at most `late_s` after it was written; it is
    moved on by time that this node did not watch, so the difference to `read_at_s` counts watched time only.
    `lived_at_s` is a time at which the node was alive for certain: that of a read after which its beat rose.
    `has_moved`: it appeared, or its beat rose, while this node was watching. `is_replaced`: a later
    agent has its seat, which it gets only when the earlier one has been watched to be silent.
    """

    presence: Presence
    beat_since_s: float
    read_at_s: float
    joining_since_s: float
    lived_at_s: float = float("-inf")
    late_s: float = float("inf")
    has_moved: bool = False
    is_replaced: bool = False

    def says_the_same_as(self, other: Sighting) -> bool:
        """Whether the node has said nothing new, but for its beat."""
        return replace(self.presence, beat=0) == replace(other.presence, beat=0)

    def is_silent(self, liveness_s: float) -> bool:
        """Whether its seat is another's, or its beat was watched standing still for the liveness time."""
        return self.is_replaced or self.read_at_s - self.beat_since_s > liveness_s


@dataclass(frozen=True)
class DrainWish:
    round: int
    reason: Reason
    seconds_left: float
    everybody: bool
    leaving: tuple[str, ...] = ()


@dataclass(frozen=True)
class NoticeWish:
    reason: Reason
    scope: Scope
    seconds_left: float
    heard_at_s: float
    signal: str = ""


@dataclass(frozen=True)
class EndWish:
    """`node` is that of the failed rank where it is another's, told by its own agent in another way."""

    round: int
    cause: Cause
    rank: int = -1
    exit_code: int = 0
    message: str = ""
    step: int = -1
    ran_s: float = -1.0
    node: str = ""


@dataclass(frozen=True)
class CloseWish:
    exit_code: int
    message: str


@dataclass(frozen=True)
class LeaveWish:
    outcome: Outcome
    reason: str


@dataclass(frozen=True)
class Wish:
    """What the agent has asked for so far. Numbers are of rounds; 0 means none."""

    joining: int = 0  # takes part in the first round of at least this number
    joining_since_s: float = 0.0
    drain: DrainWish | None = None
    notice: NoticeWish | None = None
    cause: NoticeWish | None = None
    reported: tuple[int, int] = (0, -1)  # (round, step)
    end: EndWish | None = None
    done: int = 0
    close: CloseWish | None = None
    leave: LeaveWish | None = None


@dataclass(frozen=True)
class Arrival:
    """A start of another job that shares the run, seen while this node was there."""

    attempt: Attempt
    seen_at_s: float


@dataclass(frozen=True)
class Seen:
    """Everything one node has read. `front` is the newest number below `rounds/`, `mine` the newest
    started round of which this node is a member, `listed` the newest number that names it at all.
    `arrivals` has the latest of each job."""

    attempt: Attempt
    newer: Attempt | None = None
    notice: Notice | None = None
    notice_seen_at_s: float = 0.0
    cause: Notice | None = None
    cause_seen_at_s: float = 0.0
    front: RoundView = RoundView()
    mine: RoundView | None = None
    listed: int = 0
    attempt_has_started: bool = False
    busy_at_s: float = 0.0  # when a round of others was last seen running
    nodes: Mapping[str, Sighting] = field(default_factory=dict)
    arrivals: Mapping[str, Arrival] = field(default_factory=dict)
