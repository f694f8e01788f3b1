"""Why Slurm sent a signal and how long is left, from the signal and the job's record.

The signal alone says little: a preemption, the time limit, a cancel and a requeue all send TERM, and
a site's user-signal option replaces it. The record tells them apart (measured on 22.05.8):

    state       PreemptTime  signal     cause                 time left
    RUNNING     set          any        preempted             until EndTime, else PreemptTime + GraceTime
    other       set          any        preempted             KillWait
    any, Reason=TimeLimit    any        time limit            KillWait
    any, one restart more    any        requeued              KillWait
    other, Reason=JobLaunchFailure      unknown, the batch script was killed   KillWait
    CANCELLED, COMPLETING    any        cancelled             KillWait
    RUNNING     none         notice     time limit, if EndTime is near; else told by the user
    RUNNING     none         terminate  unknown               the agent's shutdown timeout
    no record                any        unknown               what the signal alone says

Requeued is also a job that was preempted where there is no grace time and PreemptMode is REQUEUE: its
record is the same, to the letter, as after `scontrol requeue`.
"""

from __future__ import annotations

import signal
from typing import Final

from hpc_elastic.agent.notices import NOTICE_S, NOTICE_SIGNALS, Bettered, Heard, Kind
from hpc_elastic.clock import SYSTEM_CLOCK, Clock
from hpc_elastic.rendezvous.record import Reason, Scope
from hpc_elastic.slurm import job_record
from hpc_elastic.slurm.commands import Controller
from hpc_elastic.slurm.job_record import JobRecord
from hpc_elastic.values import dataclass, field

DEFAULT_KILL_WAIT_S: Final = 30.0  # Slurm's own default
# Our template asks for 60 s; Slurm looks once a minute, so the signal may come 60 s early.
LEAD_S: Final = 150.0
LEAD_FRACTION: Final = 0.1  # of the time limit: a user's own, longer lead
# How long a notice before the time limit, or one by hand, lets the workers go on.
LONGEST_DRAIN_S: Final = 600.0
_KILLED_SOON: Final = frozenset({Reason.CANCELLED, Reason.REQUEUED})


def margin_s(time_left_s: float) -> float:
    """What to keep of the time left for the batch side: to see that its agents left, and to requeue.

    The agents keep their own margin, for killing what did not leave.
    """
    return min(max(1.0, 0.1 * time_left_s), 5.0, 0.5 * max(time_left_s, 0.0))


def reason_of(kind: Kind, record: JobRecord, restart_count: int) -> Reason:
    """The cause of a signal of `kind`, heard just before `record` was read, in start `restart_count`."""
    certain = certain_reason(record, restart_count)
    if certain is not None:
        return certain
    if not record.is_running or kind is Kind.TERMINATE:
        return Reason.UNKNOWN
    return Reason.TIME_LIMIT if _is_near_its_limit(record) else Reason.USER


def certain_reason(record: JobRecord, restart_count: int) -> Reason | None:
    """Why start `restart_count` has to end, where its record says so whatever the signal was."""
    if record.preempt_time is not None:
        return Reason.PREEMPTED
    if record.reason == "TimeLimit" or record.state == job_record.TIMEOUT:
        return Reason.TIME_LIMIT
    if record.has_come_back(restart_count):
        return Reason.REQUEUED
    if record.lost_batch_script and record.state != job_record.CANCELLED:
        return None
    if record.state in (job_record.CANCELLED, job_record.COMPLETING):
        return Reason.CANCELLED
    return None


def time_left_s(reason: Reason, record: JobRecord, kill_wait_s: float, shutdown_timeout_s: float) -> float:
    """The time until Slurm kills, as `record` had it when it was read; no margin taken off."""
    if is_being_killed(reason, record):
        return kill_wait_s
    if reason is Reason.UNKNOWN:
        return shutdown_timeout_s
    known = record.seconds_left
    if known is None:
        return shutdown_timeout_s if reason is Reason.PREEMPTED else LONGEST_DRAIN_S
    return max(known, 0.0) if reason is Reason.PREEMPTED else min(max(known, 0.0), LONGEST_DRAIN_S)


def is_being_killed(reason: Reason, record: JobRecord) -> bool:
    """Whether the kill clock runs already: what is left is the site's KillWait."""
    return not record.is_running or reason in _KILLED_SOON


def _is_near_its_limit(record: JobRecord) -> bool:
    left_s, limit_s = record.seconds_left, record.time_limit_s
    if left_s is None or limit_s is None:
        return False
    return left_s <= max(LEAD_S, LEAD_FRACTION * limit_s)


@dataclass
class SlurmNoticeSource:
    """Signals as Slurm sends them; the cause from the job's record. An `agent.notices.NoticeSource`.

    `job_id` is SLURM_JOB_ID. In a pool the scope is NODE: each element is preempted alone.
    `grace_s` is the partition's GraceTime, where the batch shell has told it: a container often has no
    Slurm command to ask with.
    """

    job_id: str
    restart_count: int
    shutdown_timeout_s: float
    grace_s: float | None = None
    controller: Controller = field(default_factory=lambda: Controller(timeout_s=4.0, pauses_s=(0.5, 1.0)))
    clock: Clock = SYSTEM_CLOCK
    notice_signals: tuple[int, ...] = NOTICE_SIGNALS
    scope: Scope = Scope.RUN
    _heard: Kind = Kind.TERMINATE

    def read(self, signum: int) -> Heard:
        """What `signum` says alone: stop within the shutdown timeout, whatever the cause.

        With a site's user-signal option a notice is a preemption and its grace may be short, so it
        gets no longer a time than TERM until the record has been read. Where the grace time of a
        preemption is known, that is the time.
        """
        self._heard = Kind.NOTICE if signum in self.notice_signals else Kind.TERMINATE
        left_s = self.shutdown_timeout_s
        if self.grace_s:
            left_s = self.grace_s - margin_s(self.grace_s)
        left_s = min(NOTICE_S, left_s)
        return Heard(self._heard, signal.Signals(signum).name, Reason.UNKNOWN, self.scope, left_s)

    def ask(self) -> Bettered | None:
        """The cause and the time left by the job's record, or None where Slurm does not say."""
        began_s = self.clock.monotonic_s()
        record = job_record.parse(self.controller.show_job(self.job_id).output, self.job_id)
        if record is None:
            return None
        took_s = self.clock.monotonic_s() - began_s
        reason = reason_of(self._heard, record, self.restart_count)
        if is_being_killed(reason, record):
            left_s = self._kill_wait_s() - took_s
        elif reason is Reason.PREEMPTED and record.seconds_left is None:
            left_s = self._grace_left_s(record)
        else:
            left_s = time_left_s(reason, record, DEFAULT_KILL_WAIT_S, self.shutdown_timeout_s)
        return Bettered(reason, max(left_s - margin_s(left_s), 0.0))

    def _grace_left_s(self, record: JobRecord) -> float:
        """By the partition; a QOS may say otherwise, but only the accounting database shows it."""
        grace_s = job_record.grace_time_s(self.controller.show_partition(record.partition).output)
        gone_s = record.since_preemption_s
        return self.shutdown_timeout_s if grace_s is None or gone_s is None else max(grace_s - gone_s, 0.0)

    def _kill_wait_s(self) -> float:
        asked = job_record.kill_wait_s(self.controller.show_config().output)
        return DEFAULT_KILL_WAIT_S if asked is None else asked
