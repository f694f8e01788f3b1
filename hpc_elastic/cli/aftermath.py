"""What a run's record says of one attempt once its agents have left, for the decision to requeue."""

from __future__ import annotations

from hpc_elastic import settings
from hpc_elastic.exit_codes import ExitCode
from hpc_elastic.rendezvous import keys
from hpc_elastic.rendezvous.record import Closed, Outcome, Reason
from hpc_elastic.slurm.environment import JobEnvironment
from hpc_elastic.slurm.requeue import Aftermath
from hpc_elastic.status import history
from hpc_elastic.status.losses import stalled_limits, unsaved_losses
from hpc_elastic.status.snapshot import AttemptSnapshot, RoundSnapshot, RunSnapshot


def aftermath(
    run: RunSnapshot,
    job: JobEnvironment,
    step_status: int,
    *,
    may_requeue: bool,
    max_losses: int = settings.MAX_RESTARTS,
    grace_s: float | None = None,
    most_bad_nodes: int = 0,
    others_may_come: bool = False,
) -> Aftermath:
    """The part of `run` that concerns the start of `job` this process belongs to."""
    attempt = _attempt_of(run, job)
    last = _last_round(run, attempt)
    return Aftermath(
        job_id=job.job_id,
        address=job.address,
        restart_count=job.restart_count,
        step_status=step_status,
        node_count=job.nnodes,
        may_requeue=may_requeue,
        attempt=None if attempt is None else attempt.number,
        closed=_closed(run, attempt),
        notice=None if attempt is None else attempt.why_stopped,
        is_drained=last is not None and last.drain is not None and last.drain.everybody,
        outcomes=_outcomes(run, attempt, last),
        grace_s=grace_s,
        bad_nodes=_bad_nodes(run, attempt, last, most_bad_nodes, is_kept_out=_is_kept_out(job, step_status)),
        others_may_come=others_may_come,
        waits=0 if attempt is None else _waits(run, attempt),
        losses=unsaved_losses(run, of=None if attempt is None else attempt.start),
        stalls=_stalls(run, attempt),
        max_losses=max_losses,
    )


def _stalls(run: RunSnapshot, attempt: AttemptSnapshot | None) -> int:
    """The events are read only where they matter."""
    why = None if attempt is None else attempt.why_stopped
    if attempt is None or why is None or why.reason not in (Reason.TIME_LIMIT, Reason.UNKNOWN):
        return 0
    return stalled_limits(run, history.read(run.run_dir, tail_bytes=history.TAIL_BYTES), of=attempt.start)


def _waits(run: RunSnapshot, attempt: AttemptSnapshot) -> int:
    """How many starts of the job came after the last that had a round, whose ever it was."""
    had_one = [max(one.proposal.attempts) for one in run.rounds if one.has_started]
    since = max(had_one, default=0)
    return sum(since < one.number for one in run.attempts if one.start.job == attempt.start.job)


def _attempt_of(run: RunSnapshot, job: JobEnvironment) -> AttemptSnapshot | None:
    mine = (job.cluster, job.job_id, job.restart_count)
    found = (
        one for one in run.attempts if (one.start.cluster, one.start.job_id, one.start.restart_count) == mine
    )
    return max(found, key=lambda one: one.number, default=None)


def _is_kept_out(job: JobEnvironment, step_status: int) -> bool:
    """Whether the only node of the job shall have no part in the run."""
    return job.nnodes == 1 and step_status == ExitCode.NODE_SUSPECT


def _bad_nodes(
    run: RunSnapshot,
    attempt: AttemptSnapshot | None,
    last: RoundSnapshot | None,
    most: int,
    *,
    is_kept_out: bool,
) -> tuple[str, ...]:
    """The nodes that the run goes on without; none where there are so many that it is hardly theirs."""
    found = () if last is None else last.proposal.left_out
    if is_kept_out and attempt is not None:
        # Health is asked before a round knows of the node: what its own starts have met with is all there is.
        mine = {one.number for one in run.attempts if one.start.job == attempt.start.job}
        failed = (one for one in run.presences if one.attempt in mine and one.outcome is Outcome.FAILED)
        found = tuple(dict.fromkeys((*found, *(one.name for one in failed))))
    return found if len(found) <= most else ()


def _last_round(run: RunSnapshot, attempt: AttemptSnapshot | None) -> RoundSnapshot | None:
    if attempt is None:
        return None
    started = (one for one in run.rounds if one.has_started and attempt.number in one.proposal.attempts)
    return max(started, key=lambda one: one.number, default=None)


def _closed(run: RunSnapshot, attempt: AttemptSnapshot | None) -> Closed | None:
    """A success binds the run for ever, a failure those that could still have had a round after it."""
    last = _last_round(run, attempt)
    for closed in run.closings:
        comes_later = last is None or last.number < closed.number
        if closed.succeeded or (attempt is not None and comes_later and closed.binds(attempt.start)):
            return closed
    return None


def _outcomes(
    run: RunSnapshot, attempt: AttemptSnapshot | None, last: RoundSnapshot | None
) -> tuple[Outcome | None, ...]:
    """How the members that its last round had of the attempt ended: no other node has anything to save."""
    if attempt is None or last is None:
        return ()
    said = {one.node: one.outcome for one in run.presences if one.attempt == attempt.number}
    mine = (one.node for one in last.members if keys.attempt_of(one.node) == attempt.number)
    return tuple(said.get(node) for node in mine)
