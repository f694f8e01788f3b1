"""What becomes of jobs that still wait when their run is over: they are taken out of the queue.

The elements of its pool, and jobs that were submitted to join it. One that starts all the same finds the
record closed and leaves at once, so this is a courtesy to whoever waits behind it, and nothing depends on it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hpc_elastic.slurm.commands import Controller


def release_pending(
    array: str, joining: Sequence[str], claim: Callable[[], bool], controller: Controller
) -> str | None:
    """Cancel what has not started: elements of `array`, and of the jobs in `joining`; what was done.

    None where there is nothing to do, or another job of the run does it: `claim` says whether this process
    is the one that does.
    """
    if not (array or joining) or not claim():
        return None
    said = []
    if array:
        answer = controller.cancel_pending(array)
        what = "are taken out of the queue" if answer.is_ok else f"will leave as soon as they start: {answer}"
        said.append(f"elements of job {array} that still wait {what}")
    for job in joining:
        controller.cancel_pending(job)  # of one that is over Slurm may know nothing any more
    if joining:
        said.append(f"jobs that wait to join it are taken out of the queue ({', '.join(joining)})")
    return "; ".join(said)
