"""Which jobs go on with a run whose own job could not come back. Pure."""

from __future__ import annotations

from hpc_elastic.status.snapshot import RunSnapshot


def last_of(run: RunSnapshot, job_id: str) -> str:
    """The job that goes on in the place of `job_id`, however often that was so; itself where none does."""
    after = {one.of_job: one.job for one in sorted(run.continuations, key=lambda one: one.restart_count)}
    passed = set()
    while job_id in after and job_id not in passed:
        passed.add(job_id)
        job_id = after[job_id]
    return job_id


def newest(run: RunSnapshot, job_id: str, after_attempt: int = 0) -> str:
    """The job that the run is now, which began as `job_id`; not for a pool.

    Attempts up to `after_attempt` belong to an earlier job of the same run. A job whose start is on record
    counts although nobody has written down that it goes on.
    """
    own = run.own_attempt
    return last_of(run, job_id if own is None or own.number <= after_attempt else own.start.job_id)


def of_pool(run: RunSnapshot, array: str, after_attempt: int = 0) -> tuple[str, ...]:
    """The array of a pool, and the newest job of each of its elements that goes on as another one.

    Attempts up to `after_attempt` belong to an earlier pool of the same run.
    """
    over = {one.of_job for one in run.continuations}
    newer = (one.job for one in run.continuations if one.job not in over and one.attempt > after_attempt)
    return (array, *dict.fromkeys(newer))
