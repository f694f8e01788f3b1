"""Whether a job comes back: one decision per attempt. `requester.py` carries it out.

The run's record says whether anything is left to do, the job's record whether Slurm would still let
it come back. Never after a cancel, a finish or a failure.
"""

from __future__ import annotations

from typing import Final

from hpc_elastic import settings
from hpc_elastic.agent.notices import Kind
from hpc_elastic.exit_codes import ExitCode
from hpc_elastic.rendezvous.record import Closed, Notice, Outcome, Reason
from hpc_elastic.slurm import job_record
from hpc_elastic.slurm.job_record import JobRecord
from hpc_elastic.slurm.preemption import reason_of
from hpc_elastic.values import dataclass, replace

# Of an element that waits for the others of its pool: two hours of a node, with the default join timeout.
MOST_WAITS: Final = 12
_NOT_A_NODES_FAULT: Final = frozenset({ExitCode.USAGE, ExitCode.NO_PROGRESS, ExitCode.RECORD_LOST})
_KEPT: Final = frozenset({Outcome.SAVED, Outcome.DONE})


@dataclass(frozen=True)
class Aftermath:
    """What is left of one attempt once its agents have gone.

    `job_id` is SLURM_JOB_ID, `address` what Slurm's commands are given where the job's record does
    not answer. `attempt` is None where no agent came as far as the run's record. `outcomes` has one
    entry for each node that had workers, None for one that never said how it ended. `step_status` is
    that of the `srun` that ran them, `node_count` how many nodes this start was given. `may_requeue`
    is false where the submission asked for none. `grace_s` is the partition's GraceTime,
    where it is known. `losses` counts the starts in a row, this one included,
    that ended for lost nodes or agents and saved nothing, `stalls` those that came to their time limit and no
    step further; more than `max_losses` are too many.
    `bad_nodes` are those that the job shall not be given again. `others_may_come`: it is an element of a
    pool, and others run or wait in the queue; `waits` counts its starts in a row, this one included, in
    whose time nobody had a round.
    """

    job_id: str
    address: str
    restart_count: int
    step_status: int
    node_count: int = 0
    may_requeue: bool = True
    attempt: int | None = None
    closed: Closed | None = None
    notice: Notice | None = None
    is_drained: bool = False
    outcomes: tuple[Outcome | None, ...] = ()
    grace_s: float | None = None
    losses: int = 0
    stalls: int = 0
    max_losses: int = settings.MAX_RESTARTS
    bad_nodes: tuple[str, ...] = ()
    others_may_come: bool = False
    waits: int = 0

    @property
    def is_told_to_stop(self) -> bool:
        """Whether the attempt ended because it had to, and not by itself."""
        return self.notice is not None or self.is_drained

    @property
    def kept(self) -> ExitCode:
        """SAVED where every node said that its workers had saved or finished, else UNSAVED."""
        return ExitCode.SAVED if all(outcome in _KEPT for outcome in self.outcomes) else ExitCode.UNSAVED

    @property
    def why_stopped(self) -> str:
        """The cause in words."""
        if self.notice is None:
            return "drained"
        if self.notice.reason is Reason.UNKNOWN:
            return f"told to stop by {self.notice.signal or 'a notice'}"
        return str(self.notice.reason.value)


@dataclass(frozen=True)
class Requeue:
    """Ask Slurm to start the job again; `code` is what this life ends with."""

    code: int
    why: str


@dataclass(frozen=True)
class SwitchRequeueOn:
    """The same, after setting the job's Requeue field, which a site or `--no-requeue` cleared."""

    code: int
    why: str


@dataclass(frozen=True)
class Continue:
    """The job cannot come back: submit another one that goes on with the run."""

    code: int
    why: str


@dataclass(frozen=True)
class Leave:
    """Do nothing more; the batch script ends with `code`."""

    code: int
    why: str


Decision = Requeue | SwitchRequeueOn | Continue | Leave


def decide(after: Aftermath, job: JobRecord | None) -> Decision:
    """What the batch side does. `job` is None where the controller did not answer."""
    if after.closed is not None:
        if after.closed.succeeded:
            return Leave(ExitCode.DONE, "the run is done")
        return Leave(after.closed.exit_code, f"the run failed: {_what_failed(after.closed)}")
    preempted = is_preempted(job)
    if not after.is_told_to_stop and not preempted:
        return _decide_untold(after, job)
    if after.notice is not None and after.notice.reason is Reason.CANCELLED:
        return Leave(after.kept, "the job was cancelled")
    # A preemption may end agents before they can hear it: then the job's record alone tells of it.
    is_taken = preempted or (job is not None and job.was_taken(after.grace_s))
    why = after.why_stopped if not is_taken else str(Reason.PREEMPTED.value)
    if not after.is_told_to_stop:
        why += " before an agent could hear of it"
    if not after.may_requeue:
        return Leave(after.kept, f"{why}; the submission asked for no requeue")
    if after.notice is not None and after.notice.reason is Reason.NODE_FAILURE and not preempted:
        return _decide_loss(after, job, f"{why}: nodes are lost, and too few were left to go on")
    return _decide_stop(after, job, why)


def _decide_stop(after: Aftermath, job: JobRecord | None, why: str) -> Decision:
    """The job had to stop, and may come back."""
    if after.stalls > after.max_losses and _came_to_its_limit(after, job):
        fact = f"{after.stalls} starts in a row began at the same step and had not saved at their time limit"
        return Leave(ExitCode.NO_PROGRESS, f"{why}; {fact}, so the job does not come back")
    if job is None:
        # `requeue Incomplete` leaves a cancelled job alone, so asking blindly is safe.
        return Requeue(after.kept, f"{why}; the job's record is out of reach")
    return _decide_by_job(after, job, why)


def _came_to_its_limit(after: Aftermath, job: JobRecord | None) -> bool:
    """By the notice, or by the job's record where the agents could not ask: in a container, say."""
    reason = None if after.notice is None else after.notice.reason
    if reason is Reason.UNKNOWN and job is not None:
        reason = reason_of(Kind.NOTICE, job, after.restart_count)
    return reason is Reason.TIME_LIMIT


def _what_failed(closed: Closed) -> str:
    """In short where an agent has said it in full."""
    if not closed.node:
        return closed.message
    return (
        f"rank {closed.rank} on {closed.node}, whose agent says how above, and `hpc-elastic status` as well"
    )


def is_preempted(job: JobRecord | None) -> bool:
    """Whether the grace time of a preemption runs."""
    return job is not None and job.is_running and job.preempt_time is not None


def _decide_untold(after: Aftermath, job: JobRecord | None) -> Decision:
    failed = after.step_status or ExitCode.FAILED
    if after.attempt is None:
        return Leave(failed, _why_no_start(after.step_status))
    if failed == ExitCode.NODE_SUSPECT and after.node_count == 1:
        return _decide_suspect(after, job)
    if failed == ExitCode.RENDEZVOUS_TIMEOUT and after.others_may_come:
        return _decide_too_few(after, job)
    why = _why_lost(after, job)
    if why is None or failed in _NOT_A_NODES_FAULT:
        return Leave(
            failed, f"the agents ended by themselves with status {failed}, without a notice: not a preemption"
        )
    if job is None:
        return Leave(failed, f"{why}; the job's record is out of reach, so it may have been cancelled")
    if not job.is_running:
        return Leave(failed, f"{why}; {_why_ending(job)}")
    if not after.may_requeue:
        return Leave(after.kept, f"{why}; the submission asked for no requeue")
    return _decide_loss(after, job, why)


def _why_no_start(status: int) -> str:
    if status == ExitCode.RECORD_LOST:
        return "the run's record, which was removed or out of reach, shows no start: the agents say why"
    return f"no agent came as far as the run's record (srun status {status})"


def _decide_suspect(after: Aftermath, job: JobRecord | None) -> Decision:
    """The only node of the job is kept out of the run; on another one the job may be of use."""
    code, why = ExitCode.NODE_SUSPECT, "its node is kept out of the run"
    if not after.may_requeue:
        return Leave(code, f"{why}; the submission asked for no requeue")
    if not after.bad_nodes:
        return Leave(code, f"{why}; --exclude-bad-nodes N lets it come back on another one, N times at most")
    if job is None:
        return Leave(code, f"{why}; the job's record is out of reach, so it may have been cancelled")
    if not job.is_running:
        return Leave(code, f"{why}; {_why_ending(job)}")
    return replace(_decide_by_job(after, job, why), code=code)


def _decide_too_few(after: Aftermath, job: JobRecord | None) -> Decision:
    """The element was given its node long before the others of its pool: it waits for them in the queue."""
    code, why = ExitCode.RENDEZVOUS_TIMEOUT, "too few elements of the pool have a node, and others may come"
    if not after.may_requeue:
        return Leave(code, f"{why}; the submission asked for no requeue")
    if after.waits > MOST_WAITS:
        return Leave(
            code,
            f"{after.waits} starts in a row waited for others in vain: nodes seem to come one by one; "
            "submit it with a smaller MIN, or a longer --rdzv-conf join_timeout=",
        )
    if job is None:
        return Requeue(code, f"{why}; the job's record is out of reach")
    if not job.is_running:
        return Leave(code, f"{why}; {_why_ending(job)}")
    return replace(_decide_by_job(after, job, why), code=code)


def _why_lost(after: Aftermath, job: JobRecord | None) -> str | None:
    """What was lost, in words; None where every agent ended by itself and Slurm has all the nodes."""
    if job is not None and _has_lost_a_node(after, job):
        return f"of {after.node_count} nodes {job.node_count} are left, too few to go on"
    silent = sum(outcome is None for outcome in after.outcomes)
    if silent:
        status = after.step_status
        return f"{silent} of {len(after.outcomes)} agents ended without a word (srun status {status})"
    return None


def _decide_loss(after: Aftermath, job: JobRecord | None, why: str) -> Decision:
    if after.losses > after.max_losses:
        fact = f"{after.losses} starts in a row ended like this and left nothing in the checkpoint directory"
        return Leave(ExitCode.NO_PROGRESS, f"{why}; {fact}, so the job does not come back")
    if job is None:
        return Requeue(after.kept, f"{why}; the job's record is out of reach")
    return _decide_by_job(after, job, why)


def _has_lost_a_node(after: Aftermath, job: JobRecord) -> bool:
    return job.node_count is not None and job.node_count < after.node_count


def _decide_by_job(after: Aftermath, job: JobRecord, why: str) -> Decision:
    if job.has_come_back(after.restart_count):
        return Leave(after.kept, f"{why}; Slurm has requeued the job already")
    if job.is_batch is False:
        return Leave(after.kept, f"{why}; only a batch job can be requeued: start it with sbatch")
    if not job.is_running:
        if job.was_taken(after.grace_s):
            return Continue(after.kept, f"{why}; the grace time is over and Slurm does not requeue the job")
        kind = Continue if _is_past_its_limit(job) else Leave
        return kind(after.kept, f"{why}; {_why_ending(job)}")
    if job.requeue is False:
        return SwitchRequeueOn(after.kept, f"{why}; the job has Requeue=0")
    return Requeue(after.kept, why)


def _is_past_its_limit(job: JobRecord) -> bool:
    return job.reason == "TimeLimit" or job.state == job_record.TIMEOUT


def _why_ending(job: JobRecord) -> str:
    if _is_past_its_limit(job):
        return "the time limit has passed, ask for an earlier notice with --signal=USR2@SECONDS"
    if job.preempt_time is not None:
        return "the grace time is over, or the job was cancelled in it"
    return f"the job was cancelled, or is ending: it is {job.state} and not RUNNING"
