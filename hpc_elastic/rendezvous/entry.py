"""How a node enters a run: it finds or opens its attempt, and takes its seat in it."""

from __future__ import annotations

from typing import Final

from hpc_elastic.errors import UsageError
from hpc_elastic.rendezvous import keys
from hpc_elastic.rendezvous.codec import decode_as, decode_if_sound, encode
from hpc_elastic.rendezvous.operations import Create, Names, Read, Trip
from hpc_elastic.rendezvous.record import Attempt, NodeState, Presence, SeatClaim
from hpc_elastic.rendezvous.standing import JobStart, Seat, Settings

# An owner that died before its first beat cannot be told from one whose new file this client does
# not see yet: clients of NFS remember for up to 60 s (acdirmax) that a name was missing.
UNSEEN_OWNER_S: Final = 75.0


def find_attempt(start: JobStart, writer: str, wall: str) -> Trip[Attempt]:
    """The attempt of this start: the one that another of its nodes has opened, or a new one."""
    known = keys.numbers((yield Names(keys.ATTEMPTS)))
    for number in reversed(known):
        raw = yield Read(keys.attempt_key(number))
        found = decode_as(raw, Attempt, key=keys.attempt_key(number)) if raw is not None else None
        if found is not None and _is_mine(found, start):
            return found
    number = known[-1] + 1 if known else 1
    while True:
        key = keys.attempt_key(number)
        wanted = Attempt(
            number=number,
            cluster=start.cluster,
            job_id=start.job_id,
            array_task=start.array_task,
            restart_count=start.restart_count,
            started_at=wall,
            nodes=start.nodes,
            writer=writer,
            share=start.share,
        )
        stored = decode_as((yield Create(key, encode(wanted))), Attempt, key=key)
        if _is_mine(stored, start):
            return stored
        number += 1


def _is_mine(attempt: Attempt, start: JobStart) -> bool:
    return attempt.is_start_of(start.cluster, start.job_id, start.array_task, start.restart_count)


def _is_lost(claim: bytes) -> bool:
    """Whether the host that wrote a claim has crashed before it was on the disk: so its agent is dead too."""
    return not claim.strip(b"\0")


def _presence(node: str) -> Trip[Presence | None]:
    """What a node says of itself. A crash of its host may have left half of that, which says nothing."""
    return decode_if_sound((yield Read(keys.node_key(node))), Presence, key=keys.node_key(node))


class SeatTaking:
    """The claim of one node name within an attempt: one living agent speaks for it.

    A second agent that finds the owner beating is refused. One that finds it silent for the
    liveness time, or gone, claims the next number.
    """

    def __init__(self, attempt: Attempt, seat: Seat, settings: Settings, node: str) -> None:
        self._attempt = attempt
        self._seat = seat
        self._settings = settings
        self._node = node
        self.claim = 0
        self._beat: int | None = None
        self._since_s: float | None = None

    def restart_watch(self) -> None:
        """After an outage or a pause the owner is watched anew."""
        self._since_s = None

    def attempt_claim(self, now_s: float) -> Trip[bool]:
        """Whether the seat is this node's. Raises `UsageError` when another agent lives on it."""
        while True:
            key = keys.seat_key(self._attempt.number, self._seat.name, self.claim)
            wanted = SeatClaim(self._attempt.number, self._seat.name, self.claim, self._node)
            stored = yield Create(key, encode(wanted))
            if not _is_lost(stored):
                owner = decode_as(stored, SeatClaim, key=key).writer
                if owner == self._node:
                    return True
                if not self._is_free((yield from _presence(owner)), now_s):
                    return False
            self.claim += 1
            self._since_s = None

    def _is_free(self, owner: Presence | None, now_s: float) -> bool:
        if owner is not None and owner.state is NodeState.LEFT:
            return True
        beat = owner.beat if owner is not None else 0
        if self._since_s is None:
            self._beat, self._since_s = beat, now_s
        if beat != self._beat:
            raise UsageError(
                f"two agents on node {self._seat.name} in attempt {self._attempt.number} (the other one is "
                f"{owner.node if owner else 'starting'}); start one agent per node: srun --ntasks-per-node=1"
            )
        unseen_s = UNSEEN_OWNER_S if owner is None else 0.0
        return now_s - self._since_s > max(self._settings.liveness_s, unseen_s)
