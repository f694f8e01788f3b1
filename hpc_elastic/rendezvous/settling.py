"""Which cause of an end counts, and what that does to the budgets."""

from __future__ import annotations

from hpc_elastic.rendezvous.record import Cause, Drain, End, NodeState, Reason, Settled
from hpc_elastic.rendezvous.seen import RoundView
from hpc_elastic.rendezvous.situation import Situation

_CHANGES = {Cause.MEMBER_LOST, Cause.MEMBER_LEFT, Cause.MEMBERS_JOINING}


def cause_of(drain: Drain) -> Cause:
    """The cause of an end that a drain brought about."""
    return Cause.MEMBERS_JOINING if drain.reason is Reason.MEMBERSHIP else Cause.DRAIN


def settle(s: Situation, view: RoundView, end: End) -> Settled:
    """The settled cause of a round that has ended.

    A dead node makes its peers' workers fail first, so a failure counts only when nothing else
    explains it: the last unit of a budget is never spent in doubt.
    """
    cause, node, why = _weigh(s, view, end)
    return Settled(view.number, cause, node, why, s.wall, s.node)


def _weigh(s: Situation, view: RoundView, end: End) -> tuple[Cause, str, str]:
    if not end.cause.is_failure:
        return end.cause, end.node, "as its end says"
    if view.drain is not None:
        return (
            cause_of(view.drain),
            end.node,
            f"a drain stood ({view.drain.reason.value}) when a worker failed",
        )
    if s.is_old(view):
        return Cause.NEWER_ATTEMPT, end.node, "its attempt was over before the failure was settled"
    if s.must_stop:
        return Cause.DRAIN, end.node, "a notice stood for the attempt when a worker failed"
    for node in view.members:
        if s.has_left(node) and s.is_done(node, view.number):
            continue
        if s.has_left(node):
            return Cause.MEMBER_LEFT, node, f"node {node} has left; workers of others fail because of it"
        if s.is_silent(node):
            return Cause.MEMBER_LOST, node, f"node {node} is silent; workers of others fail because of it"
        if not _is_alive(s, view, node):
            return Cause.MEMBER_LOST, node, f"node {node} has not been seen since; it may have died before"
    return end.cause, end.node, "every member is there, and no notice or drain stood"


def _is_alive(s: Situation, view: RoundView, node: str) -> bool:
    """Whether a member is known to have been alive after the end of its round."""
    if node in (s.node, view.end.node if view.end else ""):
        return True
    presence, sighting = s.presence(node), s.sighting(node)
    if presence is not None and presence.state is NodeState.JOINING and presence.stopped >= view.number:
        return True
    return sighting is not None and sighting.lived_at_s > view.end_seen_at_s


def failures_after(view: RoundView) -> int:
    """The settled worker failures of the run when the round after `view` begins."""
    if view.record is None:
        return 0
    failed = view.settled is not None and view.settled.cause.is_failure
    return view.record.failures + int(failed)


def changes_after(view: RoundView) -> int:
    """The settled membership changes of the run when the round after `view` begins."""
    if view.record is None:
        return 0
    partial = view.drain is not None and not view.drain.everybody
    cause = view.settled.cause if view.settled else None
    return view.record.changes + int(cause in _CHANGES or (cause is Cause.DRAIN and partial))
