"""The batch side's eye on the record while its agents run: when the last that lives has left.

`srun --wait=0` waits for the task of a lost node too: until Slurm takes the node for dead, or without
end where the node has come back before that. So the batch side needs to know by itself, and without
a word to the controller. It also beats, so that the agents can tell when the batch host is lost.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final

from hpc_elastic import settings
from hpc_elastic.backends.base import Backend
from hpc_elastic.errors import BackendUnavailable, HpcElasticError, RecordCorrupt
from hpc_elastic.rendezvous import keys, outside
from hpc_elastic.rendezvous.codec import decode_as, encode
from hpc_elastic.rendezvous.record import Attempt, BatchBeat, Closed, Notice, Reason, Round, Scope
from hpc_elastic.rendezvous.standing import JobStart
from hpc_elastic.slurm.roll import Roll
from hpc_elastic.slurm.walltime import Front

# An agent that has never been seen may still be loading, while all the others have left.
UNSEEN_S: Final = 60.0
_ALL_EVERY: Final = 6  # in how many heartbeats every agent is looked at once


class BatchWatch:
    """Watches the attempt of `start`. `turn` is called once in a heartbeat, `ledger` is the run directory.

    `meet` opens the backend where the agents of the attempt meet.
    """

    def __init__(
        self,
        ledger: Backend,
        meet: Callable[[], Backend],
        start: JobStart,
        *,
        heartbeat_s: float,
        store_lost_s: float,
    ) -> None:
        self._ledger = ledger
        self._meet = meet
        self._start = start
        self._heartbeat_s = heartbeat_s
        self._liveness_s = settings.LIVENESS_HEARTBEATS * heartbeat_s
        self._store_lost_s = store_lost_s
        self._writer = f"batch-{os.getpid():x}-{os.urandom(6).hex()}"
        self._beat = 0
        self._attempt: int | None = None
        self._live: Backend | None = None
        self._roll: Roll | None = None
        self._all_at_s = float("-inf")
        self._turned_at_s: float | None = None
        self._nobody_since_s: float | None = None

    def turn(self, now_s: float) -> bool:
        """Look, and beat; whether every agent that lives has left. Nothing is concluded from failed reads."""
        paused = self._turned_at_s is not None and now_s - self._turned_at_s > 3 * self._heartbeat_s
        self._turned_at_s = now_s
        try:
            if paused:
                raise BackendUnavailable("this process stood still")
            return self._turn(now_s)
        except HpcElasticError:
            self._nobody_since_s = None
            if self._roll is not None:
                self._roll.begin_anew(now_s)
            return False

    def give_notice(self, reason: Reason, seconds_left: float, now: str) -> bool:
        """Tell the agents that the attempt has to stop; whether it is on record now, by us or by an agent.

        `now` is the time of day, for people.
        """
        if self._attempt is None or self._live is None:
            return False
        heard = Notice(self._attempt, reason, Scope.RUN, seconds_left, "", "", now, self._writer)
        try:
            outside.give_notice(self._live, heard)
        except HpcElasticError:
            return False
        return True

    def front(self) -> Front | None:
        """The newest round of the attempt; None where there is none, it is closed, or cannot be read."""
        if self._attempt is None or self._live is None:
            return None
        try:
            names = self._live.names(keys.ROUNDS)
            key = keys.round_key(max(keys.numbers(names), default=0))
            raw = self._live.read(key)
            found = decode_as(raw, (Round, Closed), key=key) if raw else None
            if not isinstance(found, Round) or self._attempt not in found.attempts:
                return None
            return Front(found.number, self._live.read(keys.settled_key(found.number)) is not None)
        except HpcElasticError:
            return None

    def _turn(self, now_s: float) -> bool:
        if self._attempt is None:
            self._attempt = find(self._ledger, self._start)
            if self._attempt is None:
                return False
        self._beat += 1
        beat = BatchBeat(self._attempt, self._beat, self._writer)
        self._ledger.overwrite(keys.batch_key(self._attempt), encode(beat))
        if self._roll is None:
            if self._ledger.read(keys.backend_key(self._attempt)) is None:
                return False  # the first agent is about to choose it
            self._live = self._meet()
            self._roll = Roll(self._live, self._attempt)
        return self._are_all_gone(self._roll, self._attempt, now_s)

    def _are_all_gone(self, roll: Roll, attempt: int, now_s: float) -> bool:
        if not roll.look_at_one(self._liveness_s, now_s) or self._are_all_due(now_s):
            roll.look(now_s)
            self._all_at_s = now_s
        if not roll.marks or roll.living(self._liveness_s):
            self._nobody_since_s = None
            return False
        if self._nobody_since_s is None:
            self._nobody_since_s = now_s
        return now_s - self._nobody_since_s >= self._patience_s(roll, attempt)

    def _are_all_due(self, now_s: float) -> bool:
        return now_s - self._all_at_s >= _ALL_EVERY * self._heartbeat_s

    def _patience_s(self, roll: Roll, attempt: int) -> float:
        """For how long nobody must have been seen alive, beyond the liveness time.

        Where none has said goodbye it may be the record that stands still, and not the agents: they
        go on for the store-lost budget.
        """
        if _is_closed(self._ledger, attempt):
            return 0.0
        if not any(mark.has_left for mark in roll.marks):
            return self._store_lost_s
        return 0.0 if roll.node_names >= set(self._start.nodes) else UNSEEN_S


def find(ledger: Backend, start: JobStart) -> int | None:
    """The number of the attempt of `start`, if one of its agents has opened it."""
    for number in reversed(keys.numbers(ledger.names(keys.ATTEMPTS))):
        raw = ledger.read(keys.attempt_key(number))
        if raw is None:
            continue
        found = decode_as(raw, Attempt, key=keys.attempt_key(number))
        if found.is_start_of(start.cluster, start.job_id, start.array_task, start.restart_count):
            return number
    return None


def _is_closed(ledger: Backend, attempt: int) -> bool:
    """Whether the run is closed for this attempt."""
    for number in reversed(keys.numbers(ledger.names(keys.ROUNDS))[-2:]):
        raw = ledger.read(keys.round_key(number))
        try:
            found = decode_as(raw, (Round, Closed), key=keys.round_key(number)) if raw else None
        except RecordCorrupt:
            continue
        if isinstance(found, Closed) and (found.succeeded or found.attempt >= attempt):
            return True
    return False
