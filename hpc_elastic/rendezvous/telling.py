"""What an agent is told: the `Standing` that follows from a situation."""

from __future__ import annotations

from hpc_elastic.errors import HpcElasticError
from hpc_elastic.rendezvous import forming, running
from hpc_elastic.rendezvous.settling import changes_after, failures_after
from hpc_elastic.rendezvous.situation import Phase, Situation
from hpc_elastic.rendezvous.standing import Standing


def standing_of(s: Situation, error: HpcElasticError | None, outage: str = "") -> Standing:
    """The snapshot for the agent. `round` is shown only while this attempt is not replaced.

    `outage` is what keeps this node from the record, if that has lasted.
    """
    mine = s.seen.mine
    proposal = mine.proposal if mine is not None else None
    notice_at_s = s.seen.cause_seen_at_s if s.seen.cause else s.seen.notice_seen_at_s
    is_member = s.front.is_running and s.node in s.front.places
    return Standing(
        attempt=s.attempt,
        node=s.node,
        round=proposal,
        rank=proposal.group_rank(s.node) if proposal else None,
        drain=mine.drain if mine else None,
        drain_seen_at_s=mine.drain_seen_at_s if mine and mine.drain else None,
        stop_step=mine.stop.step if mine and mine.stop else None,
        end=mine.end if mine else None,
        notice=s.notice,
        notice_seen_at_s=notice_at_s if s.notice else None,
        waiting=len(running.newcomers(s)) if is_member else 0,
        failures=failures_after(s.front),
        changes=changes_after(s.front),
        closed=s.closed,
        error=error,
        waiting_for=(outage or forming.waiting_text(s)) if s.phase is Phase.JOINING else "",
    )
