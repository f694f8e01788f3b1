"""What no agent knows: what really happened. The witness compares it with what agents do and record."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hpc_elastic.errors import RendezvousGracefulExitError
from hpc_elastic.rendezvous import keys
from hpc_elastic.rendezvous.operations import Create, Operation, Remove
from hpc_elastic.rendezvous.record import Cause, Closed, End, Record, Round, Settled, Verdict
from hpc_elastic.testing.simulated_agent import SimulatedAgent

if TYPE_CHECKING:
    from hpc_elastic.testing.simulation import Simulation

# A notice is recorded as a drain within this time where nothing is in its way.
DRAIN_FOLLOWS_S = 3.0
LEAVES_WITHIN_TURNS = 40


class Witness:
    """`broken` collects the broken promises."""

    def __init__(self, simulation: Simulation) -> None:
        self._sim = simulation
        self._checked: set[tuple[str, int]] = set()
        self.broken: list[str] = []

    def note_turn(self, agent: SimulatedAgent) -> None:
        """An agent begins a turn: what could it know by now?"""
        bell = self._sim.backend.bell()
        agent.heard_of_newer = bell is not None and self._is_replaced(agent, bell.attempt)
        self._check_that_it_leaves(agent)
        for number, at_s in agent.started.items():
            if (agent.node, number) not in self._checked:
                self._checked.add((agent.node, number))
                self._check_start(agent, number, at_s)

    def _check_that_it_leaves(self, agent: SimulatedAgent) -> None:
        """A replaced agent that can read the record reads it, and goes; one that is not replaced stays."""
        sent_away = isinstance(agent.driver.error, RendezvousGracefulExitError)
        if sent_away and not self._is_replaced(agent, keys.MAX_ATTEMPT):
            self.broken.append(
                f"{agent.node} goes as if its attempt were replaced, and its job has not started again"
            )
        stays = agent.heard_of_newer and not agent.has_failed and agent.wish.leave is None
        newest = self._sim.job.elements[agent.element].attempt
        if stays and newest is not None:
            known_s = self._sim.backend.created_at_s[keys.attempt_key(newest.number)]
            stays = self._sim.now_s - known_s > self._sim.setting.faults.hides_news_for_s
        agent.turns_replaced += int(stays)
        if agent.turns_replaced > LEAVES_WITHIN_TURNS:
            self.broken.append(f"{agent.node} stays although its attempt is replaced")
        agent.has_failed = False

    def _is_replaced(self, agent: SimulatedAgent, newest: int) -> bool:
        starts = self._sim.job.elements[agent.element]
        newer = starts.attempt is not None and starts.attempt.number > agent.attempt.number
        return newer and starts.attempt is not None and newest >= starts.attempt.number

    def _check_start(self, agent: SimulatedAgent, number: int, at_s: float) -> None:
        """It acts in the round that was agreed, which has started, and whose end it could not know."""
        label = f"{agent.node} in round {number}"
        record, standing = self._sim.backend.ledger.get(keys.round_key(number)), agent.driver.standing
        if standing.round is not None and standing.round.number == number:
            if standing.round != record:
                self.broken.append(f"{label}: it acts in another world than the record's")
            if standing.rank is None or standing.round.members[standing.rank].node != agent.node:
                self.broken.append(f"{label}: it has rank {standing.rank}, which is not its own")
        verdict = self._sim.backend.ledger.get(keys.verdict_key(number))
        if not isinstance(verdict, Verdict) or not verdict.started:
            self.broken.append(f"{label}: it acts although the round was not started")
        known_s = min(
            self._sim.backend.announced_at_s.get(keys.end_key(number), float("inf")),
            self._sim.backend.announced_at_s.get(keys.round_key(number + 1), float("inf")),
        )
        known_s += self._sim.setting.faults.hides_news_for_s
        if known_s < agent.turn_began_s and standing.end is None:
            self.broken.append(f"{label}: started at {at_s:.2f} s, and its end was known at {known_s:.2f} s")

    def check_operation(self, agent: SimulatedAgent, operation: Operation) -> None:
        """A replaced agent acts no more, and nothing is removed that somebody needs."""
        if isinstance(operation, Remove):
            self._check_removal(operation.key)
        if not isinstance(operation, Create) or not operation.key.startswith(f"{keys.ROUNDS}/"):
            return
        if agent.heard_of_newer and not self._sim.setting.faults.hides_news_for_s:
            self.broken.append(f"{agent.node} makes {operation.key} although its attempt is replaced")

    def note_write(self, record: Record) -> None:
        """A run is done when all members of its round are."""
        if not isinstance(record, End) or record.cause is not Cause.SUCCESS:
            return
        proposal = self._sim.backend.ledger.get(keys.round_key(record.round))
        members = {one.node for one in proposal.members} if isinstance(proposal, Round) else set()
        for agent in self._sim.agents:
            if agent.node in members and agent.wish.done != record.round:
                self.broken.append(f"round {record.round} is called a success, and {agent.node} still works")

    def _check_removal(self, key: str) -> None:
        alive = [
            agent
            for agent in self._sim.alive()
            if agent.wish.leave is None and agent.attempt is self._sim.job.elements[agent.element].attempt
        ]
        if any(key == keys.node_key(agent.node) for agent in alive):
            self.broken.append(f"{key} is removed although that node lives")
        for agent in alive:
            if key.startswith(keys.seat_prefix(agent.attempt.number)):
                self.broken.append(f"{key} is removed although attempt {agent.attempt.number} lives")

    def expect_drain(self, agent: SimulatedAgent) -> None:
        """An agent was told of a notice: the round it is in has to be drained soon, or to end."""
        number = agent.present_round()
        if number is None:
            return
        told_s = self._sim.now_s

        def look() -> None:
            is_hindered = agent.is_gone or agent.paused_until_s > told_s or self._sim.is_hindered(told_s)
            ledger = self._sim.backend.ledger
            known = keys.drain_key(number) in ledger or keys.end_key(number) in ledger
            if not known and not is_hindered:
                self.broken.append(f"{agent.node} was told at {told_s:.1f} s, and round {number} goes on")

        self._sim.after(DRAIN_FOLLOWS_S + 2 * self._sim.setting.hurry_s, look)

    def broken_budgets(self) -> list[str]:
        """No unit of the budget is spent for a member that had died before the failure."""
        ledger, found = self._sim.backend.ledger, []
        failures = [one for one in ledger.values() if isinstance(one, Settled) and one.cause.is_failure]
        for record in failures:
            proposal = ledger[keys.round_key(record.round)]
            ended_s = self._sim.backend.created_at_s[keys.end_key(record.round)]
            ended_s -= self._sim.setting.faults.hides_news_for_s
            members = {one.node for one in proposal.members} if isinstance(proposal, Round) else set()
            found += [
                f"round {record.round}: a failure is counted although {agent.node} had crashed before"
                for agent in self._sim.agents
                if agent.node in members and agent.crashed_at_s is not None and agent.crashed_at_s < ended_s
            ]
        counted = [one.failures for one in ledger.values() if isinstance(one, Round | Closed)]
        if max(counted, default=0) > len(failures):
            found.append(f"{max(counted)} failures are counted, {len(failures)} are settled")
        return found
