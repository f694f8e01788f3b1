"""What Slurm, machines and people do to a simulated run: starts, notices, crashes, requeues."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hpc_elastic.rendezvous.record import GUESTS, Attempt, Outcome, Reason, Scope
from hpc_elastic.testing.simulated_agent import SimulatedAgent
from hpc_elastic.testing.simulated_setting import Faults, Habits

if TYPE_CHECKING:
    from hpc_elastic.testing.simulation import Simulation

REQUEUE_S = 60.0


@dataclass
class Element:
    """One job of the run: the only one, an element of a pool, or a guest. `seats` are its nodes.

    `share` is that of its attempts.
    """

    number: int
    seats: tuple[int, ...]
    share: str = ""
    starts: int = 0
    attempt: Attempt | None = None
    is_waiting: bool = False  # Slurm will start it again


class SimulatedJob:
    """Decides by the simulation's chance; everything it does is an event of the simulation."""

    def __init__(self, simulation: Simulation) -> None:
        self._sim = simulation
        self._setting = simulation.setting
        self._chance = simulation.chance
        self._is_peaceful = False
        nodes = range(self._setting.nodes)
        guests = range(self._setting.nodes, self._setting.nodes + self._setting.guests)
        pool = [((index,), "pool") for index in nodes]
        seats = [*(pool if self._setting.settings.pool else [(tuple(nodes), "")])]
        seats += [((index,), GUESTS) for index in guests]
        self.elements = [Element(number, group, share) for number, (group, share) in enumerate(seats)]

    def begin(self) -> None:
        """The run is submitted."""
        for element in self.elements:
            latest_s = 40.0 if element.share == GUESTS else 5.0 if element.share else 0.0
            self._start_in(element, self._chance.uniform(0.0, latest_s) if latest_s else 0.0)
        self._sim.at(self._setting.trouble_s, self._make_peace)
        if self._setting.faults.spell_every_s and self._setting.faults.spells:
            self._sim.at(self._chance.expovariate(1 / self._setting.faults.spell_every_s), self._cast_spell)

    def note_gone(self, agent: SimulatedAgent) -> None:
        """An agent has ended. A job whose agents have all ended is started again."""
        left = agent.wish.leave
        if agent.crashed_at_s is not None or (left is not None and left.outcome is Outcome.UNSAVED):
            self._sim.infect(agent)
        element = self.elements[agent.element]
        if not self._agents_of(element) and not element.is_waiting:
            self._start_in(element, 5.0)

    def _agents_of(self, element: Element) -> list[SimulatedAgent]:
        mine = [agent for agent in self._sim.alive() if agent.element == element.number]
        return [agent for agent in mine if agent.attempt is element.attempt]

    def _start_in(self, element: Element, seconds: float) -> None:
        element.is_waiting = True
        starts = element.starts
        self._sim.after(seconds, lambda: self._start(element) if element.starts == starts else None)

    def _start(self, element: Element) -> None:
        """Slurm starts the job; what is left of its older attempt is mostly killed."""
        if self._sim.is_closed_by_success():
            return
        element.is_waiting = True
        for agent in self._sim.alive():
            if agent.element == element.number and self._chance.random() >= self._setting.zombies:
                self._sim.kill(agent, "is killed with its attempt")
        element.starts += 1
        element.is_waiting = False
        element.attempt = self._sim.open_attempt(element)
        for index in element.seats:
            is_late = not self._is_peaceful and self._chance.random() < self._setting.late
            longest_s = 60.0 if is_late else self._setting.starts_within_s
            self._seat_in(element, index, self._chance.uniform(0.0, longest_s))
        attempt = element.attempt
        if not self._is_peaceful and self._chance.random() < self._setting.notices:
            self._sim.after(self._chance.uniform(0.0, 60.0), lambda: self._give_notice(element, attempt))
        if not self._is_peaceful and self._chance.random() < self._setting.requeues:
            self._sim.after(self._chance.uniform(0.0, 80.0), lambda: self._requeue(element, attempt))

    def _seat_in(self, element: Element, index: int, seconds: float) -> None:
        attempt = element.attempt
        self._sim.after(seconds, lambda: self._seat(element, index, attempt))

    def _seat(self, element: Element, index: int, attempt: Attempt | None) -> None:
        """An agent starts on one node, unless one lives there or the attempt is over."""
        if attempt is None or attempt is not element.attempt or element.is_waiting:
            return
        here = [agent for agent in self._agents_of(element) if agent.seat.order == index]
        if here or self._sim.is_closed_by_success():
            return
        agent = self._sim.seat(attempt, element, index)
        faults = self._setting.faults
        if faults.pause_every_s:
            self._sim.after(self._chance.expovariate(1 / faults.pause_every_s), lambda: self._pause(agent))
        if faults.crash_every_s:
            self._sim.after(self._chance.expovariate(1 / faults.crash_every_s), lambda: self._crash(agent))

    def _pause(self, agent: SimulatedAgent) -> None:
        faults = self._setting.faults
        if self._is_peaceful or agent.is_gone:
            return
        self._sim.pause(agent, self._chance.uniform(0.1, faults.pause_s))
        self._sim.after(self._chance.expovariate(1 / faults.pause_every_s), lambda: self._pause(agent))

    def _crash(self, agent: SimulatedAgent) -> None:
        if self._is_peaceful or agent.is_gone:
            return
        element = self.elements[agent.element]
        if self._chance.random() >= self._setting.faults.crash_for_good and agent.attempt is element.attempt:
            self._seat_in(element, agent.seat.order, self._chance.uniform(0.5, 60.0))
        self._sim.kill(agent, "crashes")

    def _cast_spell(self) -> None:
        faults = self._setting.faults
        if self._is_peaceful:
            return
        kind = self._chance.choice(faults.spells)
        length_s = self._chance.choice([1.0, 8.0, 40.0]) * self._chance.uniform(0.5, 1.0)
        alive = self._sim.alive()
        node = self._chance.choice(alive).node if kind == "stale_handle" and alive else ""
        self._sim.tell(f"{kind} {f'for {node} ' if node else ''}for {length_s:.1f} s")
        self._sim.backend.begin(kind, node, length_s)
        self._sim.after(self._chance.expovariate(1 / faults.spell_every_s), self._cast_spell)

    def _requeue(self, element: Element, attempt: Attempt) -> None:
        """The job is started again, and nobody was told."""
        if not self._is_peaceful and attempt is element.attempt and not element.is_waiting:
            self._sim.tell(f"attempt {attempt.number} is requeued without a warning")
            self._start(element)

    def _give_notice(self, element: Element, attempt: Attempt) -> None:
        if self._is_peaceful or attempt is not element.attempt or element.is_waiting:
            return
        if not element.share:
            scope = self._chance.choice([Scope.RUN, Scope.NODE, Scope.RUN])
            self._tell_some(element, scope)
        elif self._chance.random() < self._setting.all_at_once:
            for one in self.elements:
                self._tell_some(one, Scope.NODE if one.share else Scope.RUN)
        else:
            self._tell_some(element, Scope.NODE)

    def _tell_some(self, element: Element, scope: Scope) -> None:
        """Some agents of a job hear that it, or their node, will be taken away."""
        mine = self._agents_of(element)
        if not mine or element.is_waiting:
            return
        heard = self._chance.sample(mine, self._chance.randint(1, len(mine) if scope is Scope.RUN else 1))
        left_s = self._chance.choice([5.0, 30.0])
        self._sim.tell(f"{', '.join(agent.node for agent in heard)} told: {scope.value} ends in {left_s:g} s")
        for agent in heard:
            agent.announce(Reason.PREEMPTED, scope, left_s, self._sim.now_s)
            self._sim.witness.expect_drain(agent)
        if scope is Scope.RUN or element.share:
            self._start_in(element, REQUEUE_S)
        else:
            self._seat_in(element, heard[0].seat.order, REQUEUE_S)

    def _make_peace(self) -> None:
        """From here on nothing goes wrong any more, and every node comes back."""
        self._is_peaceful = True
        self._sim.backend.faults = Faults()
        self._sim.backend.end_spells()
        self._sim.tell("peace")
        for agent in self._sim.alive():
            agent.habits = Habits(work_s=5.0)
        self._sim.habits = Habits(work_s=5.0)
        for element in self.elements:
            for index in element.seats:
                self._seat_in(element, index, self._chance.uniform(0.0, 60.0))
