"""What a person may do next about a run. Pure; one sentence with what to type."""

from __future__ import annotations

from hpc_elastic.status import continuations
from hpc_elastic.status.snapshot import RunSnapshot


def next_move(run: RunSnapshot, called: str = "") -> str:
    """The next action, for a person at a login node, by whose commands the run is `called` this."""
    name = called or run.run_id or str(run.run_dir)
    closed, attempt = run.closed, run.own_attempt
    if closed is not None:
        return (
            f"nothing to do; checkpoints and results are in {run.run_dir}"
            if closed.succeeded
            else _after(run, name)
        )
    if attempt is None:
        return (
            "wait for the job to start: squeue --me; "
            f"if it is not there, submit it again with --run-dir {run.run_dir}"
        )
    if not run.has_left:
        last = run.last_round
        if last is not None and run.is_of_now(last) and last.drain is not None and last.end is None:
            return f"wait, the workers are saving: hpc-elastic status {name} -w"
        return f"nothing to do; read along: hpc-elastic logs {name} -f"
    job = continuations.last_of(run, attempt.start.job_id)
    if attempt.is_cancelled or attempt.stays_away is not None:
        return f"to go on, submit it again with --run-dir {run.run_dir}"
    if attempt.is_by_hand:
        return f"to go on, start it again with --run-dir {run.run_dir}"
    if attempt.requeues or job != attempt.start.job_id:
        how = f"wait, the job comes back by itself: squeue -j {job}"
    else:
        how = f"see whether the job is in the queue: squeue -j {job}"
    return f"{how}; if it is not there, submit it again with --run-dir {run.run_dir}"


def _after(run: RunSnapshot, name: str) -> str:
    """After a failure: the output of the rank that failed first."""
    last = run.round(run.closed.last_round) if run.closed else None
    own = run.own_attempt
    verb = "start" if own is not None and own.is_by_hand else "submit"
    again = f"then {verb} it again with --run-dir {run.run_dir}"
    if last is None or last.end is None or not last.end.cause.is_failure or last.end.rank < 0:
        return f"hpc-elastic report {name} shows what went before; {again}"
    return f"hpc-elastic logs {name} --rank {last.end.rank} --attempt {last.attempt}; {again}"
