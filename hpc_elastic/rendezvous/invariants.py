"""What must hold of the records of a run: checks on each new record against those that stand.

Used by the simulation after every accepted write, and by tests on the record of real runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hpc_elastic.rendezvous import keys
from hpc_elastic.rendezvous.record import (
    Attempt,
    Bell,
    Cause,
    Closed,
    Drain,
    End,
    NodeState,
    Presence,
    Record,
    Round,
    Settled,
    Stop,
    Verdict,
)
from hpc_elastic.rendezvous.standing import Settings

Ledger = Mapping[str, Record]


def violations(key: str, record: Record, ledger: Ledger, settings: Settings) -> list[str]:
    """What is wrong with `record`, about to stand under `key` beside what is in `ledger`."""
    before = ledger.get(key)
    if before is not None and before != record and not isinstance(record, Presence | Bell):
        return [f"{key}: was created once, and has changed"]
    match record:
        case Round():
            found = _of_round(record, ledger, settings)
        case Closed():
            found = _of_closing(record, ledger)
        case Verdict():
            found = _of_verdict(record, ledger)
        case Drain() | End():
            found = _of_started(record.round, ledger)
        case Stop():
            found = _of_stop(record, ledger)
        case Settled():
            found = _of_settled(record, ledger)
        case Presence():
            found = _of_presence(record, ledger.get(key))
        case _:
            found = iter(())
    return [f"{key}: {what}" for what in found]


def violations_of_run(ledger: Ledger, settings: Settings) -> list[str]:
    """What is wrong with the finished record of a run, taken as a whole."""
    found = []
    for key, record in ledger.items():
        if not isinstance(record, Presence | Stop):
            found += violations(key, record, ledger, settings)
    return found


def _of_round(record: Round, ledger: Ledger, settings: Settings) -> Iterator[str]:
    nodes = [member.node for member in record.members]
    seats = [(keys.attempt_of(member.node), member.name) for member in record.members]
    owners = [attempt for attempt in record.attempts if not _shares(attempt, ledger)]
    if not settings.min_nodes <= len(nodes) <= settings.max_nodes:
        yield f"a world of {len(nodes)} nodes, not {settings.min_nodes} to {settings.max_nodes}"
    if len(set(nodes)) != len(nodes):
        yield "a node is a member twice"
    if len(set(seats)) != len(seats):
        yield "two agents of one node are members"
    if len(owners) > 1:
        yield f"attempts {owners} are members, and each has the run for itself"
    if {seat[0] for seat in seats} != set(record.attempts) or set(owners) & set(record.shared):
        yield "its attempts are not those of its members"
    if record.master_address != record.members[0].address:
        yield "the master is not rank 0"
    if set(record.left_out) & {name for _, name in seats}:
        yield "a node that is left out is a member"
    yield from _of_order(record, ledger)
    yield from _of_succession(record, ledger, settings)


def _shares(attempt: int, ledger: Ledger) -> bool:
    found = ledger.get(keys.attempt_key(attempt))
    return isinstance(found, Attempt) and bool(found.share)


def _of_order(record: Round, ledger: Ledger) -> Iterator[str]:
    """Survivors come first, then the newcomers in the node order of their job."""
    before = ledger.get(keys.round_key(record.number - 1))
    old = {member.node for member in before.members} if isinstance(before, Round) else set()
    are_new = [member.node not in old for member in record.members]
    if are_new != sorted(are_new):
        yield "a newcomer has the rank of a survivor"
    newcomers = [member.node for member in record.members if member.node not in old]
    presences = [ledger.get(keys.node_key(node)) for node in newcomers]
    orders = [(one.order, one.name) for one in presences if isinstance(one, Presence)]
    if orders != sorted(orders):
        yield "the newcomers are not in their job's node order"


def _of_succession(record: Round, ledger: Ledger, settings: Settings) -> Iterator[str]:
    """The round before is over for good, its survivors keep their order, and the counts go on."""
    if record.number == 1:
        if (record.failures, record.changes) != (0, 0):
            yield "the first round begins with a spent budget"
        return
    before = ledger.get(keys.round_key(record.number - 1))
    if isinstance(before, Closed):
        if before.succeeded or before.attempt >= max(record.attempts):
            yield "a closed run has reopened"
        return
    if not isinstance(before, Round):
        yield "the number before it is missing"
        return
    old = [member.node for member in before.members]
    places = [old.index(member.node) for member in record.members if member.node in old]
    if places != sorted(places) or places != sorted(places)[: len(places)]:
        yield "survivors have changed their order"
    yield from _of_history(record, before, ledger, settings)
    failures = before.failures + int(_is_failure(ledger.get(keys.settled_key(before.number))))
    if record.failures != failures:
        yield f"it counts {record.failures} failures, the settled records {failures}"
    if not _is_over(before.number, ledger):
        yield f"round {before.number} is not over"


def _of_history(record: Round, before: Round, ledger: Ledger, settings: Settings) -> Iterator[str]:
    """The past is what the settled records say, and only nodes that it speaks against are left out."""
    settled = ledger.get(keys.settled_key(before.number))
    counts = (
        isinstance(settled, Settled)
        and settled.cause is Cause.MEMBER_LOST
        and keys.attempt_of(settled.node) not in before.shared
    )
    total = sum(one.total for one in before.history.strikes) + int(_is_failure(settled) or counts)
    if sum(one.total for one in record.history.strikes) != total:
        yield f"its history has {sum(one.total for one in record.history.strikes)} strikes, not {total}"
    strikes = {one.name: one.total for one in record.history.strikes}
    suspects = {*before.left_out, *(name for name in strikes if _is_flapping(name, strikes, settings))}
    for name in set(record.left_out) - suspects:
        yield f"{name} is left out, with rounds ended by node {strikes}"
    doubted = suspects & {member.name for member in record.members}
    if doubted and len(record.members) > settings.min_nodes:
        yield f"{', '.join(sorted(doubted))} is a member and not needed, with rounds ended by node {strikes}"


def _is_flapping(name: str, strikes: Mapping[str, int], settings: Settings) -> bool:
    most = max((count for other, count in strikes.items() if other != name), default=0)
    return 0 < settings.node_failures <= strikes[name] >= 2 * most


def _is_over(number: int, ledger: Ledger) -> bool:
    verdict = ledger.get(keys.verdict_key(number))
    if isinstance(verdict, Verdict) and not verdict.started:
        return True
    return keys.end_key(number) in ledger and keys.settled_key(number) in ledger


def _is_failure(settled: Record | None) -> bool:
    return isinstance(settled, Settled) and settled.cause.is_failure


def _of_closing(record: Closed, ledger: Ledger) -> Iterator[str]:
    end = ledger.get(keys.end_key(record.last_round))
    if record.succeeded and not (isinstance(end, End) and end.cause is Cause.SUCCESS):
        yield "closed as done although its last round has no such end"
    before = ledger.get(keys.round_key(record.number - 1))
    if record.number > 1 and before is None:
        yield "the number before it is missing"
    if isinstance(before, Closed) and before.succeeded:
        yield "a closed run is closed again"


def _of_verdict(record: Verdict, ledger: Ledger) -> Iterator[str]:
    proposal = ledger.get(keys.round_key(record.round))
    if not isinstance(proposal, Round):
        yield "a verdict on what is not a round"
        return
    if not record.started:
        return
    for member in proposal.members:
        presence = ledger.get(keys.node_key(member.node))
        if isinstance(presence, Presence) and presence.state is NodeState.LEFT:
            continue  # after it had confirmed, or somebody would know
        if not isinstance(presence, Presence) or presence.round < record.round:
            yield f"started although {member.node} has not confirmed: {presence}"


def _of_started(number: int, ledger: Ledger) -> Iterator[str]:
    verdict = ledger.get(keys.verdict_key(number))
    if not isinstance(verdict, Verdict) or not verdict.started:
        yield f"round {number} has not started"


def _of_stop(record: Stop, ledger: Ledger) -> Iterator[str]:
    proposal = ledger.get(keys.round_key(record.round))
    if not isinstance(ledger.get(keys.drain_key(record.round)), Drain) or not isinstance(proposal, Round):
        yield "a stop without a drain"
        return
    for member in proposal.members:
        presence = ledger.get(keys.node_key(member.node))
        if (
            isinstance(presence, Presence)
            and presence.drain_seen == record.round
            and presence.step >= record.step
            and not _is_replaced(member.node, ledger)
        ):
            yield f"{member.node} is at step {presence.step}, past the stop at {record.step}"


def _is_replaced(node: str, ledger: Ledger) -> bool:
    """Whether the job of a node has started again: what is left of its last start speaks for nobody."""
    attempt = ledger.get(keys.attempt_key(keys.attempt_of(node)))
    return isinstance(attempt, Attempt) and any(
        isinstance(other, Attempt) and other.number > attempt.number and other.job == attempt.job
        for other in ledger.values()
    )


def _of_settled(record: Settled, ledger: Ledger) -> Iterator[str]:
    end = ledger.get(keys.end_key(record.round))
    if not isinstance(end, End):
        yield "settled before it has ended"
        return
    if record.cause.is_failure and end.cause is not record.cause:
        yield f"a {end.cause.value} is settled as a {record.cause.value}"
    if record.cause is Cause.SUCCESS and end.cause is not Cause.SUCCESS:
        yield f"a {end.cause.value} is settled as a success"


def _of_presence(record: Presence, before: Record | None) -> Iterator[str]:
    if before is None:
        return
    if not isinstance(before, Presence):
        yield "a presence stands where another record was"
        return
    if record.beat <= before.beat:
        yield f"the beat went from {before.beat} to {record.beat}"
    if before.state is NodeState.LEFT and record.state is not NodeState.LEFT:
        yield "a node that has left came back under its old name"
    if record.round < before.round and record.state is not NodeState.LEFT:
        yield f"the round went back from {before.round} to {record.round}"
    same = (record.node, record.attempt, record.name) == (before.node, before.attempt, before.name)
    if not same:
        yield "a node changed its name or its attempt"
