"""What the batch side writes into the run's record: its claims, the cause, and how the run goes on."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress

from hpc_elastic.backends.base import Backend
from hpc_elastic.clock import SYSTEM_CLOCK
from hpc_elastic.errors import BackendUnavailable, HpcElasticError
from hpc_elastic.rendezvous.codec import decode_as, encode
from hpc_elastic.rendezvous.keys import (
    cause_key,
    continuation_key,
    release_key,
    requeue_key,
    stays_away_key,
)
from hpc_elastic.rendezvous.record import Closed, Reason, Requeue
from hpc_elastic.rendezvous.sequels import Continued, StaysAway
from hpc_elastic.slurm.commands import Controller
from hpc_elastic.slurm.release import release_pending
from hpc_elastic.slurm.requester import Report
from hpc_elastic.slurm.requeue import Aftermath
from hpc_elastic.values import replace


class Desk:
    """What the batch side writes into the record of the attempt it looks after."""

    def __init__(self, backend: Backend, after: Aftermath) -> None:
        self._backend = backend
        self._after = after
        self._writer = f"batch-{os.getpid():x}-{os.urandom(6).hex()}"
        self._now = SYSTEM_CLOCK.utc_now()  # once: asked again, a claim has the same bytes

    def claim(self, number: int) -> bool:
        """Whether claim `number` to the requeue is this process's, or the record is out of reach.

        Two requesters at once are harmless, the second is told that the job is pending; none is not.
        """
        attempt = self._after.attempt or 0
        mine = encode(Requeue(attempt, number, self._after.address, self._now, self._writer))
        try:
            return self._backend.create(requeue_key(attempt, number), mine) == mine
        except BackendUnavailable:
            return True

    def release(self, pool: str, joining: Sequence[str], closed: Closed) -> str | None:
        """Take out of the queue what waits for a run that is over; what was done, if this process does it."""
        return release_pending(pool, joining, lambda: self._claim_release(closed.attempt), Controller())

    def _claim_release(self, attempt: int) -> bool:
        """As `claim`, but where the record is out of reach nobody has to do it."""
        mine = encode(Requeue(attempt, 0, self._after.address, self._now, self._writer))
        try:
            return self._backend.create(release_key(attempt), mine) == mine
        except BackendUnavailable:
            return False

    def is_cancelled(self) -> bool:
        """Whether somebody who could not know how the job comes back wants it to stay away."""
        key = stays_away_key(self._after.attempt or 0)
        try:
            raw = self._backend.read(key)
            return raw is not None and decode_as(raw, StaysAway, key=key).is_cancelled
        except HpcElasticError:
            return False

    def note_outcome(self, report: Report) -> None:
        """How the run goes on after this start, for those who follow it: as another job, or why not."""
        after, attempt = self._after, self._after.attempt or 0
        with suppress(BackendUnavailable):
            if report.continued_by:
                found = (attempt, after.job_id, after.restart_count, report.continued_by)
                key = continuation_key(*found[:3])
                self._backend.create(key, encode(Continued(*found, self._now, self._writer)))
            elif after.closed is None and not (report.is_requeued or report.is_open):
                away = StaysAway(attempt, report.message, False, self._now, self._writer)
                self._backend.create(stays_away_key(attempt), encode(away))

    def note_cause(self, reason: Reason | None) -> None:
        """Better a notice whose cause no agent had the time to ask for."""
        notice = self._after.notice
        if reason is None or notice is None or notice.reason is not Reason.UNKNOWN:
            return
        told = replace(notice, reason=reason, created_at=self._now, writer=self._writer)
        with suppress(BackendUnavailable):
            self._backend.create(cause_key(notice.attempt), encode(told))
