"""How an agent leaves, in each case: the outcome, the exit status and the sentence about it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hpc_elastic.agent.actions import Leave
from hpc_elastic.agent.inputs import HealthFailed, How, RecordFailed, RunClosed, WorkerEnd, WorkersStuck
from hpc_elastic.exit_codes import ExitCode
from hpc_elastic.rendezvous.record import Outcome
from hpc_elastic.values import replace

_RESUME: Final = "the next start goes on from its checkpoint"
_REPEAT: Final = "the next start goes on from what was saved before, if anything was"


def after_saving(ends: Sequence[WorkerEnd], reason: str) -> Leave:
    """Leave after a drain whose workers ended like this."""
    unsaved = [end for end in ends if end.how is How.FAILED]
    if unsaved:
        ranks = ", ".join(str(end.global_rank) for end in unsaved)
        message = f"stopped ({reason}): rank {ranks} had not saved when it ended; {_REPEAT}"
        return Leave(Outcome.UNSAVED, ExitCode.UNSAVED, message)
    step = max((end.saved_step for end in ends), default=-1)
    where = f" at step {step}" if step >= 0 else ""
    return Leave(Outcome.SAVED, ExitCode.SAVED, f"saved{where} and left ({reason}); {_RESUME}")


def idle(reason: str) -> Leave:
    """Leave where no worker ran, so that nothing is lost."""
    return Leave(Outcome.SAVED, ExitCode.SAVED, f"left ({reason}) while no worker ran; {_RESUME}")


def too_few() -> Leave:
    """Leave because lost nodes have left too few for the run."""
    message = f"left: nodes are lost, and too few are left for the run; no worker ran; {_RESUME}"
    return Leave(Outcome.SAVED, ExitCode.SAVED, message)


def cut_short(reason: str) -> Leave:
    """Leave after workers were ended that had not saved."""
    message = f"stopped ({reason}): workers were ended before they had saved; {_REPEAT}"
    return Leave(Outcome.UNSAVED, ExitCode.UNSAVED, message)


def closed(given: RunClosed) -> Leave:
    """Leave because the run is closed."""
    if given.succeeded:
        return Leave(Outcome.DONE, ExitCode.DONE, given.message or "the run is done")
    if given.elsewhere:
        message = f"the run failed: {given.elsewhere}, whose agent says how"
        return Leave(Outcome.FAILED, given.exit_code, message)
    return Leave(Outcome.FAILED, given.exit_code, f"the run failed: {given.message}", names_log=True)


def done_already() -> Leave:
    """Leave because the run was done without this node, or before it came."""
    message = "the run is done already, so nothing is started; for a new run take another --run-dir"
    return Leave(Outcome.DONE, ExitCode.DONE, message)


def record_failed(given: RecordFailed) -> Leave:
    """Leave because this node can take no further part."""
    return Leave(Outcome.FAILED, given.exit_code, given.message)


def by_ends(goal: Leave, ends: Sequence[WorkerEnd]) -> Leave:
    """`goal`, but never SAVED where a worker ended before it had saved: a newer attempt does not wait."""
    if goal.exit_code != ExitCode.SAVED or all(end.how is not How.FAILED for end in ends):
        return goal
    return replace(goal, exit_code=ExitCode.UNSAVED, message=f"{goal.message}; its workers had not saved")


def suspect(given: WorkersStuck) -> Leave:
    """Leave because a process does not die."""
    return Leave(Outcome.FAILED, ExitCode.NODE_SUSPECT, f"{given.message}; have this node checked")


def unwell(given: HealthFailed) -> Leave:
    """Leave because the health command says so."""
    message = f"this node is kept out of the run: {given.message}; have it checked"
    return Leave(Outcome.FAILED, ExitCode.NODE_SUSPECT, message)
