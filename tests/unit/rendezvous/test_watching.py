"""Whom a node watches while a round waits for its verdict."""

from __future__ import annotations

from hpc_elastic.rendezvous import watching
from hpc_elastic.rendezvous.record import Round
from hpc_elastic.rendezvous.situation import Situation
from hpc_elastic.values import replace
from tests.unit.rendezvous.worlds import NOW_S, RULES, joins, node, round_of, runs, situation, view


def confirms(proposal: Round, **silent: float) -> Situation:
    """Node c, named in a round that is not judged yet."""
    others = (runs("a", silent_s=silent.get("a", 0.0)), runs("b", silent_s=silent.get("b", 0.0)), joins("d"))
    return situation("c", *others, front=view(proposal, seen_at_s=NOW_S, verdict=None, verdict_seen_at_s=0.0))


def test_members_watch_the_proposer_who_judges() -> None:
    assert watching.plan(confirms(round_of("a", "b", "c"))).regular == (node("a"),)


def test_with_a_proposer_that_has_left_itself_out_they_watch_the_first_that_is_there() -> None:
    proposal = replace(round_of("a", "b", "c"), writer=node("d"))

    assert watching.plan(confirms(proposal)).regular == (node("a"),)
    assert watching.plan(confirms(proposal, a=1000.0)).regular == (node("a"), node("b"))
    # With both gone it judges itself, and asks those that have not confirmed.
    assert watching.plan(confirms(proposal, a=1000.0, b=1000.0)).regular == proposal_members(proposal)


def proposal_members(proposal: Round) -> tuple[str, ...]:
    return tuple(member.node for member in proposal.members)


def test_of_a_round_whose_members_are_silent_a_newcomer_watches_more_with_each() -> None:
    members = view(round_of("a", "b", "c", "d", "e"), seen_at_s=NOW_S)

    def watched(**silent: float) -> tuple[str, ...]:
        others = [runs(name, silent_s=for_s) for name, for_s in silent.items()]
        return watching.plan(situation("f", *others, front=members)).regular

    late_s = 1.5 * RULES.heartbeat_s
    assert watched() == (node("a"),)
    assert watched(a=0.0) == (node("a"),)
    assert watched(a=late_s) == (node("a"), node("b"), node("c"))
    assert watched(a=1000.0, b=0.0) == (node("a"), node("b"))
    assert watched(a=1000.0, b=late_s) == tuple(map(node, "abcde"))
