"""When a run does not go on, and what is said of it: pure, from settled records."""

from __future__ import annotations

from hpc_elastic import settings
from hpc_elastic.exit_codes import ExitCode, worker_status
from hpc_elastic.rendezvous import faults, forming
from hpc_elastic.rendezvous.history import History
from hpc_elastic.rendezvous.record import Cause, Closed, End, Round
from hpc_elastic.rendezvous.seen import RoundView
from hpc_elastic.rendezvous.settling import changes_after, failures_after
from hpc_elastic.rendezvous.situation import Situation
from hpc_elastic.values import replace


def bound_by_closing(s: Situation, view: RoundView) -> int:
    """The newest attempt that a closing binds: in a pool, of all that were in the round."""
    return max((s.attempt, *(view.proposal.attempts if view.proposal else ())))


def after_failure(s: Situation, view: RoundView) -> Closed | None:
    """The closing after a failure that is settled, or None where the run goes on; it binds this attempt.

    Where no restart can help, none is tried and no budget is spent. A spent budget beats a failure that
    keeps coming: the status is then the worker's own.
    """
    end, proposal = view.end, view.proposal
    failed = view.settled is not None and view.settled.cause.is_failure
    if end is None or proposal is None or not failed:
        return None
    found = _reason(s, view, end, proposal)
    if found is None:
        return None
    status, why, failures = found
    said = f"rank {end.rank} on {_host(view, end.node)} {_how(end)}{why}"
    return replace(_closing(s, view, status, said, failures), node=_host(view, end.node), rank=end.rank)


def _reason(s: Situation, view: RoundView, end: End, proposal: Round) -> tuple[int, str, int] | None:
    """The status to end with, why it is the end, and the failures that are counted."""
    failures = failures_after(view)
    if faults.is_incurable(end, proposal):
        why = "; no restart can cure that, and none was tried; correct it and start the run again"
        return _status(end), why, proposal.failures
    if failures > s.settings.max_restarts:
        allowed = s.settings.max_restarts
        why = (
            f" (failure {failures} of the run, {allowed} {'restart' if allowed == 1 else 'restarts'} allowed)"
        )
        return _status(end), why, failures
    history = faults.history_after(view)
    if 0 < s.settings.same_failures <= history.alike and not _may_be_cured(s, proposal):
        why = f": {_in_vain(history)}; correct its cause and start the run again"
        return int(ExitCode.NO_PROGRESS), why, failures
    return None


def _may_be_cured(s: Situation, proposal: Round) -> bool:
    """Whether the next round is the first one without a node that the failures came from."""
    staying = {presence.name for presence in forming.candidates(s)}
    return any(one.name not in staying and one.name not in proposal.left_out for one in s.line)


def _in_vain(history: History) -> str:
    """The crash loop in words: how often, and since when."""
    again = f"the same failure {history.alike} times in a row"
    if history.reached >= 0:
        return f"{again}, and the run got no further than step {history.reached} in between"
    return f"{again}, each within {settings.QUICK_FAILURE_S:g} s of the start and before a first step"


def _how(end: End) -> str:
    if end.cause is not Cause.WORKER_FAILED:
        return f"was ended: {end.message}"
    code = end.exit_code
    how = f"was ended by signal {-code}" if code < 0 else f"failed with exit code {code}"
    return f"{how}: {end.message}" if end.message else how


def _status(end: End) -> int:
    """What an agent ends with; a worker that its agent had to end has no status of its own."""
    is_own = end.cause is Cause.WORKER_FAILED
    return worker_status(end.exit_code) or int(ExitCode.FAILED) if is_own else int(ExitCode.FAILED)


def _host(view: RoundView, node: str) -> str:
    """The node's name as people know it."""
    members = view.proposal.members if view.proposal else ()
    return next((member.name for member in members if member.node == node), node)


def after_success(s: Situation, view: RoundView) -> Closed:
    """The closing of a run that is done; binds the run."""
    done = _closing(s, view, 0, "all ranks are done", failures_after(view))
    return replace(done, attempt=s.attempt, succeeded=True)


def _closing(s: Situation, view: RoundView, exit_code: int, message: str, failures: int) -> Closed:
    return Closed(
        number=view.number + 1,
        attempt=bound_by_closing(s, view),
        succeeded=False,
        last_round=view.number,
        exit_code=exit_code,
        message=message,
        created_at=s.wall,
        writer=s.node,
        failures=failures,
        changes=changes_after(view),
        share=s.seen.attempt.share,
    )
