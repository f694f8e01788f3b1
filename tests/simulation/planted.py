"""Bugs on purpose, in machine, driver and backends. Each has to be found by the walks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hpc_elastic.backends.memory import MemoryBackend
from hpc_elastic.rendezvous import forming, joining, keys, machine, running, wishing
from hpc_elastic.rendezvous.actions import Action, Make, Publish
from hpc_elastic.rendezvous.codec import decode_as
from hpc_elastic.rendezvous.driver import Driver
from hpc_elastic.rendezvous.history import History
from hpc_elastic.rendezvous.machine import Rule
from hpc_elastic.rendezvous.observer import Observer
from hpc_elastic.rendezvous.operations import Operation, Read, Trip
from hpc_elastic.rendezvous.record import (
    Attempt,
    Cause,
    Closed,
    Member,
    Presence,
    Round,
    Settled,
    Stop,
    Verdict,
)
from hpc_elastic.rendezvous.situation import Phase, Situation
from hpc_elastic.testing.faulty import Connection, FaultyBackend
from hpc_elastic.values import replace


@dataclass(frozen=True)
class Bug:
    """One planted bug: what to simulate with."""

    make_driver: type[Driver] = Driver
    make_backend: type[FaultyBackend] = FaultyBackend


def of_rules(changes: dict[Rule, Rule | None], **added: Rule) -> Bug:
    """The machine with some rules replaced, or left out, and some added to a phase."""
    rules = {
        phase: (
            *(new for rule in old if (new := changes.get(rule, rule)) is not None),
            *(rule for name, rule in added.items() if Phase[name] is phase),
        )
        for phase, old in machine.RULES.items()
    }

    class PlantedDriver(Driver):
        def decide(self, s: Situation) -> tuple[Action, ...]:
            return machine.decide(s, rules)

    return Bug(PlantedDriver)


def of_proposals(change: Callable[[Situation, Round], Round]) -> Bug:
    """Rounds are proposed in another way."""

    def propose(s: Situation) -> Action | None:
        action = joining.propose(s)
        if isinstance(action, Make) and isinstance(action.record, Round):
            return Make(action.key, change(s, action.record))
        return action

    return of_rules({joining.propose: propose})


def of_settings(**changes: Any) -> Bug:
    """Proposals follow other rules than the run's."""

    def propose(s: Situation) -> Action | None:
        return joining.propose(replace(s, settings=replace(s.settings, **changes)))

    return of_rules({joining.propose: propose})


def of_observer(kind: type[Observer]) -> Bug:
    """What is read is understood in another way."""

    class PlantedDriver(Driver):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            node, attempt, _, settings, _ = given
            self._observer = kind(node, attempt, settings)

    return Bug(PlantedDriver)


def of_answers(answer: Callable[[Connection, Operation], object]) -> Bug:
    """The backend answers in another way."""

    class PlantedConnection(Connection):
        def answer(self, operation: Operation) -> object:
            return answer(self, operation)

    class PlantedBackend(FaultyBackend):
        def reach(self, node: str) -> Connection:
            found = super().reach(node)
            return PlantedConnection(self, found._backend)

    return Bug(make_backend=PlantedBackend)


def does_not_settle(s: Situation) -> Action | None:
    action = joining.propose(s)
    if isinstance(action, Make) and isinstance(action.record, Settled):
        proposal = forming.next_round(s, "unsettled")
        return Make(keys.round_key(proposal.number), proposal)
    return action


def takes_a_failure_at_its_word(s: Situation) -> Action | None:
    """Who failed first is to blame, whoever has died."""
    action = joining.propose(s)
    end = s.front.end
    if isinstance(action, Make) and isinstance(action.record, Settled) and end is not None:
        lost = action.record.cause in (Cause.MEMBER_LOST, Cause.MEMBER_LEFT)
        if lost and end.cause.is_failure:
            return Make(action.key, replace(action.record, cause=end.cause))
    return action


def reopens(s: Situation) -> Action | None:
    mine = s.seen.mine.proposal if s.seen.mine else None
    if mine is None or not isinstance(s.front.record, Closed):
        return None
    again = replace(mine, number=s.front.number + 1, writer=s.node)
    return Make(keys.round_key(again.number), again)


def keeps_the_dead(s: Situation, proposal: Round) -> Round:
    chosen = {member.node for member in proposal.members}
    old = s.front.proposal.members if s.front.proposal else ()
    dead = [member for member in old if member.node not in chosen]
    members = (*proposal.members, *dead)[: s.settings.max_nodes]
    return replace(proposal, members=members)


def reverses_ranks(s: Situation, proposal: Round) -> Round:
    members = tuple(reversed(proposal.members))
    return replace(proposal, members=members, master_address=members[0].address)


def counts_twice(s: Situation, proposal: Round) -> Round:
    extra = int(s.front.settled is not None and s.front.settled.cause.is_failure)
    return replace(proposal, failures=proposal.failures + extra)


def takes_back(s: Situation, proposal: Round) -> Round:
    """Nobody is left out for longer than a round."""
    chosen = s.line[: s.settings.max_nodes]
    members = tuple(Member(p.node, p.name, p.slots, p.role, p.address) for p in chosen)
    return replace(proposal, members=members, master_address=members[0].address, left_out=())


def forgets(s: Situation, proposal: Round) -> Round:
    return replace(proposal, history=History())


def names_itself_twice(s: Situation, proposal: Round) -> Round:
    members = (*proposal.members[:-1], proposal.members[0])
    return replace(proposal, members=members)


def starts_without_waiting(s: Situation) -> Action | None:
    if s.front.proposal is None or not joining.may_judge(s):
        return None
    verdict = Verdict(s.front.number, True, "never mind", s.wall, s.node)
    return Make(keys.verdict_key(s.front.number), verdict)


def stops_too_early(s: Situation) -> Action | None:
    action = running.publish_stop(s)
    if isinstance(action, Make) and isinstance(action.record, Stop):
        return Make(action.key, replace(action.record, step=action.record.step - 1))
    return action


def calls_for_ever(s: Situation) -> Action | None:
    is_complete = len(s.line) >= s.settings.max_nodes or not forming.unseen_nodes(s)
    return joining.propose(s) if is_complete else None


def succeeds_too_early(s: Situation) -> Action | None:
    front = s.front
    if front.is_running and running.leads(s) and s.is_done(s.node, front.number):
        return joining.end_of(s, Cause.SUCCESS, s.node, "I am done")
    return None


class BelievesAllVerdicts(Observer):
    """An abandoned round is taken for one that has started."""

    def absorb(self, key: str, raw: bytes, now_s: float) -> None:
        super().absorb(key, raw, now_s)
        verdict = self.seen.front.verdict
        if verdict is not None and not verdict.started:
            self._update(verdict.round, verdict=replace(verdict, started=True))


class AwaitsNoVerdict(Observer):
    """A proposal is taken for a round."""

    def _advance(self, number: int, raw: bytes, now_s: float) -> None:
        super()._advance(number, raw, now_s)
        front = self.seen.front
        if front.is_pending:
            verdict = Verdict(front.number, True, "sure", "", self._node)
            self._update(front.number, verdict=verdict, verdict_seen_at_s=now_s)


class IsNotFenced(Observer):
    """Newer attempts are nobody's business."""

    def fence(self, now_s: float) -> Trip[bool]:
        yield from self.hear_bell()
        return False

    def _follow_attempts(self, now_s: float) -> Trip[None]:
        yield from ()


class IsFencedByAll(Observer):
    """Whoever comes later takes over, be it a guest or another element."""

    def _follow_attempts(self, now_s: float) -> Trip[None]:
        yield from super()._follow_attempts(now_s)
        number = self.announced.attempt
        raw = (yield Read(keys.attempt_key(number))) if number > self.seen.attempt.number else None
        if raw is not None:
            self.seen = replace(self.seen, newer=decode_as(raw, Attempt, key=keys.attempt_key(number)))


class ComparesClocks(Observer):
    """A beat is a time, and a time is a time."""

    def absorb_presence(self, presence: Presence, now_s: float) -> None:
        super().absorb_presence(presence, now_s)
        one = replace(self.seen.nodes[presence.node], beat_since_s=presence.beat / 1e6)
        self.seen = replace(self.seen, nodes={**self.seen.nodes, presence.node: one})

    def restart_windows(self, now_s: float) -> None:
        """Time needs no watching."""

    def move_windows(self, by_s: float) -> None:
        """Nor does it move."""


class MissesEnds(Observer):
    """The verdict is read at leisure, and the end, which may be there by then, later still."""

    def _read_verdict(self, number: int, now_s: float) -> Trip[None]:
        if now_s - self.seen.front.seen_at_s > 6.0:
            yield from self._read_into(keys.verdict_key(number), now_s)

    def _fill_running(self, number: int, now_s: float) -> Trip[None]:
        view = self._view(number)
        if view is not None and now_s - view.verdict_seen_at_s > 3.0:
            yield from super()._fill_running(number, now_s)


def compares_clocks() -> Bug:
    driver = of_observer(ComparesClocks).make_driver

    class Timed(driver):  # type: ignore[valid-type,misc]
        def decide(self, s: Situation) -> tuple[Action, ...]:
            actions = machine.decide(s)
            return tuple(_timed(one, s.now_s) if isinstance(one, Publish) else one for one in actions)

    return Bug(Timed)


def _timed(publish: Publish, now_s: float) -> Publish:
    return replace(
        publish, presence=replace(publish.presence, beat=int(now_s) * 1_000_000 + publish.presence.beat)
    )


class OverwritingMemory(MemoryBackend):
    """The last to come wins."""

    def create(self, key: str, value: bytes) -> bytes:
        self.overwrite(key, value)
        return value


class OverwritingBackend(FaultyBackend):
    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        has_live_part = self.live is not self.directory
        self.directory = OverwritingMemory()
        self.live = OverwritingMemory() if has_live_part else self.directory


def remembers_for_ever(connection: Connection, operation: Operation) -> object:
    """A cache that never expires."""
    if not isinstance(operation, Read):
        return Connection.answer(connection, operation)
    cache: dict[str, object] = vars(connection).setdefault("cache", {})
    if operation.key not in cache:
        cache[operation.key] = Connection.answer(connection, operation)
    return cache[operation.key]


def believes_to_have_won(connection: Connection, operation: Operation) -> object:
    """A refused create looks like a win."""
    found = Connection.answer(connection, operation)
    return getattr(operation, "value", found) if found is not None else None


PLANTED: dict[str, Bug] = {
    "ignores the maximum": of_settings(max_nodes=1000),
    "ignores the minimum": of_settings(min_nodes=1),
    "the proposer does not settle": of_rules({joining.propose: does_not_settle}),
    "counts a lost member as a failure": of_rules({joining.propose: takes_a_failure_at_its_word}),
    "counts a failure twice": of_proposals(counts_twice),
    "reopens after closing": of_rules({}, CLOSED=reopens),
    "keeps dead members": of_proposals(keeps_the_dead),
    "leaves out whoever has failed once": of_settings(node_failures=1),
    "takes back who was left out": of_proposals(takes_back),
    "forgets what has happened": of_proposals(forgets),
    "reverses the ranks": of_proposals(reverses_ranks),
    "names a member twice": of_proposals(names_itself_twice),
    "starts without confirmations": of_rules({joining.judge: starts_without_waiting}),
    "awaits no verdict": of_observer(AwaitsNoVerdict),
    "starts an abandoned round": of_observer(BelievesAllVerdicts),
    "starts rounds that have ended": of_observer(MissesEnds),
    "stops at the last step, not after it": of_rules({running.publish_stop: stops_too_early}),
    "does not record drains": of_rules({running.drain_for_notice: None, wishing.drain: None}),
    "the last call never ends": of_rules({joining.propose: calls_for_ever}),
    "succeeds when its own node has": of_rules({running.succeed: succeeds_too_early}),
    "never notes a lost member": of_rules({running.note_lost_member: None, joining.end_orphan: None}),
    "compares clocks": compares_clocks(),
    "is not fenced": of_observer(IsNotFenced),
    "is fenced by a job that shares the run": of_observer(IsFencedByAll),
    "create overwrites": Bug(make_backend=OverwritingBackend),
    "reads are cached for ever": of_answers(remembers_for_ever),
    "a refused create looks like a win": of_answers(believes_to_have_won),
}
