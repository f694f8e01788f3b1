"""Many agents, one thread, one seed: the rendezvous under named faults, replayable by its seed.

Between any two operations of one node's turn any other node may act. Settings, speeds, clocks and
faults are drawn from the seed. Every accepted write is checked against `rendezvous.invariants`,
and the story of the whole against what really happened, which no agent knows.

    python -m hpc_elastic.testing.simulation --seeds 0:300
    python -m hpc_elastic.testing.simulation --replay 17
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from random import Random
from typing import Protocol

from hpc_elastic.errors import HpcElasticError
from hpc_elastic.rendezvous import keys
from hpc_elastic.rendezvous.codec import encode
from hpc_elastic.rendezvous.driver import Driver
from hpc_elastic.rendezvous.operations import Operation
from hpc_elastic.rendezvous.record import GUESTS, Attempt, Bell, Closed, Presence, Record, SeatClaim
from hpc_elastic.rendezvous.standing import Seat
from hpc_elastic.testing.faulty import FaultyBackend
from hpc_elastic.testing.simulated_agent import MakeDriver, SimulatedAgent, SimulatedPorts
from hpc_elastic.testing.simulated_job import Element, SimulatedJob
from hpc_elastic.testing.simulated_setting import Setting
from hpc_elastic.testing.simulated_story import describe
from hpc_elastic.testing.simulated_witness import Witness

WALL = "2000-01-01T00:00:00+00:00"
SETTLES_WITHIN_S = 900.0


class MakeBackend(Protocol):
    """How a simulation gets its record: `FaultyBackend`, or one with a planted bug."""

    def __call__(self, chance: Random, setting: Setting, now_s: Callable[[], float]) -> FaultyBackend: ...


class Simulation:
    """One run of one seed. `broken` lists every broken promise; empty is what is wanted."""

    def __init__(
        self,
        setting: Setting,
        chance: Random,
        *,
        make_driver: MakeDriver = Driver,
        make_backend: MakeBackend = FaultyBackend,
    ) -> None:
        self.setting = setting
        self.chance = chance
        self.habits = setting.habits
        self.now_s = 0.0
        self.operations = 0
        self.story: list[str] = []
        self.broken: list[str] = []
        self.agents: list[SimulatedAgent] = []
        self.backend = make_backend(chance, setting, lambda: self.now_s)
        self.backend.on_write = self._note_write
        self.witness = Witness(self)
        self.job = SimulatedJob(self)
        self._make_driver = make_driver
        self._attempts = 0
        self._is_closed = False
        self._hindered_s = 0.0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._tickets = 0
        self._alive: dict[str, SimulatedAgent] = {}

    @classmethod
    def of_seed(
        cls,
        seed: int,
        *,
        most_nodes: int = 10,
        make_driver: MakeDriver = Driver,
        make_backend: MakeBackend = FaultyBackend,
    ) -> Simulation:
        """The run of that seed."""
        chance = Random(seed)
        setting = Setting.draw(chance, most_nodes=most_nodes)
        return cls(setting, chance, make_driver=make_driver, make_backend=make_backend)

    def run(self) -> list[str]:
        """Trouble for a while, then peace until the run is done; what was broken."""
        self.job.begin()
        limit_s = self.setting.trouble_s + SETTLES_WITHIN_S
        while not self.broken and not (self._is_closed and not self._alive):
            if self.now_s > limit_s:
                self.broken.append(f"not settled after {self.now_s:.0f} s: {self._state()}")
                break
            self.advance()
        self.broken += self.witness.broken_budgets()
        return self.broken

    def advance(self) -> None:
        """The next event."""
        at_s, _, act = heapq.heappop(self._events)
        self.now_s = max(self.now_s, at_s)
        act()
        if self.backend.broken or self.witness.broken:
            self.broken += self.backend.broken + self.witness.broken
            self.backend.broken, self.witness.broken = [], []

    def advance_to(self, at_s: float) -> None:
        """All events until then."""
        while self._events and self._events[0][0] <= at_s:
            self.advance()
        self.now_s = at_s

    def at(self, at_s: float, act: Callable[[], None]) -> None:
        """Let something happen at a time."""
        self._tickets += 1
        heapq.heappush(self._events, (at_s, self._tickets, act))

    def after(self, seconds: float, act: Callable[[], None]) -> None:
        """Let something happen after a time."""
        self.at(self.now_s + seconds, act)

    def alive(self) -> list[SimulatedAgent]:
        """The agents that have not ended, in the order they started."""
        return list(self._alive.values())

    def is_closed_by_success(self) -> bool:
        return self._is_closed

    def is_hindered(self, since_s: float) -> bool:
        """Whether an operation has failed, or could not be quick, since then."""
        return self._hindered_s >= since_s or self.setting.faults.hides_news_for_s > 0

    def open_attempt(self, element: Element) -> Attempt:
        """The job is started: its attempt stands in the ledger."""
        self._attempts += 1
        task = str(element.number) if element.share else ""
        number = self._attempts
        share = element.share
        if share not in ("", GUESTS):  # a closed run of a pool goes on only as another array
            share += f" {sum(isinstance(one, Closed) for one in self.backend.ledger.values())}"
        nodes = tuple(map(self._name_of, element.seats))
        record = Attempt(number, "sim", "1", task, element.starts - 1, WALL, nodes, "slurm", share)
        self.backend.plant(keys.attempt_key(number), record, encode(record))
        self.tell(f"attempt {number} starts{f' (element {task})' if task else ''}")
        return record

    def seat(self, attempt: Attempt, element: Element, index: int) -> SimulatedAgent:
        """An agent starts on node `index`."""
        name = self._name_of(index)
        node = f"{attempt.number}-{name}-{len(self.agents):x}"
        seat = Seat(name, index, name, f"10.0.{index // 250}.{index % 250 + 1}", slots=1)
        settings = self.setting.settings_of(is_guest=element.share == GUESTS)
        driver = self._make_driver(node, attempt, seat, settings, SimulatedPorts())
        agent = SimulatedAgent(
            driver,
            self.backend.reach(node),
            seat,
            attempt,
            element.number,
            self.chance,
            self.habits,
            origin_s=self.chance.uniform(0.0, 1e6),
            rate=self.chance.uniform(0.98, 1.02),
        )
        self.agents.append(agent)
        self._alive[node] = agent
        self.tell(f"{node} starts")
        self._wake(agent, 0.0)
        return agent

    def kill(self, agent: SimulatedAgent, how: str) -> None:
        """An agent ends without a goodbye, and its node's workers with it."""
        agent.crashed_at_s = self.now_s
        self._end(agent, how)

    def pause(self, agent: SimulatedAgent, seconds: float) -> None:
        """An agent stands still, with whatever it was about to do."""
        agent.paused_until_s = max(agent.paused_until_s, self.now_s + seconds)
        self.tell(f"{agent.node} pauses for {seconds:.1f} s")

    def infect(self, agent: SimulatedAgent) -> None:
        """The workers of an agent have died: those of its peers fail for it, after a while."""
        number = agent.present_round()
        if number is None or agent.wish.done == number:
            return
        for other in self._alive.values():
            if other.present_round() == number and self.chance.random() < other.habits.infection:
                other.infected.setdefault(number, self.now_s + self.chance.uniform(0.05, 4.0))

    def _name_of(self, index: int) -> str:
        return self.setting.names[index] if self.setting.names else f"n{index}"

    def tell(self, what: str) -> None:
        """Add a line to the story."""
        self.story.append(f"{self.now_s:9.2f}  {what}")

    def _end(self, agent: SimulatedAgent, how: str) -> None:
        agent.is_gone = True
        agent.ticket = -1
        self._alive.pop(agent.node, None)
        self.tell(f"{agent.node} {how}")
        self.job.note_gone(agent)

    def _wake(self, agent: SimulatedAgent, seconds: float) -> None:
        """The agent's next operation; an earlier appointment of its is void."""
        ticket = agent.ticket = self._tickets + 1
        self.after(seconds, lambda: self._operate(agent, ticket))

    def _operate(self, agent: SimulatedAgent, ticket: int) -> None:
        if agent.ticket != ticket:
            return
        if agent.paused_until_s > self.now_s:
            self._wake(agent, agent.paused_until_s - self.now_s)
            return
        self.operations += 1
        try:
            if agent.trip is None:
                self._begin_turn(agent)
            elif agent.pending is not None:
                agent.pending = self._answer(agent, agent.pending)
        except StopIteration as stop:
            agent.trip = agent.pending = None
            self._wake(agent, max(self.setting.hurry_s, float(stop.value)))
        else:
            if not agent.is_gone:
                self._wake(agent, self.backend.delay_s())

    def _begin_turn(self, agent: SimulatedAgent) -> None:
        agent.react(self.now_s)
        self.witness.note_turn(agent)
        if agent.is_gone:
            self._end(agent, "has left")
            return
        agent.turn_began_s = self.now_s
        agent.trip = agent.driver.trip(agent.wish, agent.own_s(self.now_s), WALL)
        agent.pending = next(agent.trip)

    def _answer(self, agent: SimulatedAgent, pending: Operation) -> Operation:
        trip = agent.trip
        if trip is None:
            raise RuntimeError("no turn has begun")
        self.witness.check_operation(agent, pending)
        if self.backend.is_under("slow_disk"):
            self._hindered_s = self.now_s
        try:
            result = agent.connection.answer(pending)
        except HpcElasticError as failed:
            self._hindered_s = self.now_s
            agent.has_failed = True
            return trip.throw(failed)
        return trip.send(result)

    def _note_write(self, key: str, record: Record) -> None:
        if isinstance(record, Closed):
            self._is_closed = self._is_closed or record.succeeded
        if not isinstance(record, Presence | Bell | SeatClaim):
            self.tell(f"{key}: {describe(record)}")
        self.witness.note_write(record)
        is_news = self.setting.is_told and not isinstance(record, Presence)
        if not is_news or self.backend.is_under("etcd_compacted"):
            return
        for agent in self._alive.values():
            if agent.trip is None:
                self._wake(agent, self.chance.uniform(0.001, 0.02))

    def _state(self) -> str:
        standings = [agent.driver.standing for agent in self._alive.values()]
        return "; ".join(f"{one.node}: {one.waiting_for or one}" for one in standings[:4])


if __name__ == "__main__":
    from hpc_elastic.testing.simulated_seeds import main

    raise SystemExit(main())
