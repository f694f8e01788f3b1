"""An agent without workers: it reads standings and wishes what a real agent would wish."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random

from hpc_elastic.rendezvous.driver import Driver, Ports
from hpc_elastic.rendezvous.operations import Operation, Trip
from hpc_elastic.rendezvous.record import Attempt, Cause, Outcome, Reason, Scope
from hpc_elastic.rendezvous.seen import CloseWish, EndWish, LeaveWish, NoticeWish, Wish
from hpc_elastic.rendezvous.standing import Seat, Settings, Standing
from hpc_elastic.testing.faulty import Connection
from hpc_elastic.testing.simulated_setting import Habits

MakeDriver = Callable[[str, Attempt, Seat, Settings, Ports], Driver]
FAILED_EXIT_CODE = 1
GIVES_UP_S = 60.0  # a goodbye that cannot be recorded is left unsaid


class SimulatedPorts:
    """Counts instead of binding."""

    def __init__(self) -> None:
        self._port = 1024
        self._is_held = False

    def hold(self) -> int:
        if not self._is_held:
            self._port += 1
            self._is_held = True
        return self._port

    def release(self) -> None:
        self._is_held = False


@dataclass
class SimulatedAgent:
    """One agent's life. `origin_s` and `rate` make its clock: nobody else's shows the same.

    `infected` has the rounds in which another's failure reaches its workers, and when.
    """

    driver: Driver
    connection: Connection
    seat: Seat
    attempt: Attempt
    element: int
    chance: Random
    habits: Habits
    origin_s: float
    rate: float
    wish: Wish = field(default_factory=Wish)
    ticket: int = 0
    turn_began_s: float = 0.0
    heard_of_newer: bool = False
    has_failed: bool = False  # an operation of this turn
    turns_replaced: int = 0
    trip: Trip[float] | None = None
    pending: Operation | None = None
    paused_until_s: float = 0.0
    crashed_at_s: float | None = None
    started: dict[int, float] = field(default_factory=dict)
    infected: dict[int, float] = field(default_factory=dict)
    due: dict[str, float] = field(default_factory=dict)
    is_gone: bool = False

    @property
    def node(self) -> str:
        return self.driver.standing.node

    @property
    def name(self) -> str:
        return self.seat.name

    def own_s(self, now_s: float) -> float:
        """What this agent's monotonic clock shows."""
        return self.origin_s + now_s * self.rate

    def announce(self, reason: Reason, scope: Scope, seconds_left: float, now_s: float) -> None:
        """The node is told that it will have to stop."""
        if self.wish.notice is None:
            self.wish = replace(self.wish, notice=NoticeWish(reason, scope, seconds_left, self.own_s(now_s)))

    def present_round(self) -> int | None:
        """The round whose workers run here, as far as this agent knows."""
        standing = self.driver.standing
        if standing.round is None or standing.end is not None or self.wish.joining > standing.round.number:
            return None
        return standing.round.number

    def fail(self, number: int, *, message: str = "", step: int = -1, ran_s: float = -1.0) -> None:
        """A worker of this node has failed in that round, at a step or after a time."""
        rank = self.driver.standing.rank or 0
        end = EndWish(number, Cause.WORKER_FAILED, rank, FAILED_EXIT_CODE, message, step, ran_s)
        self.wish = replace(self.wish, end=end)

    def react(self, now_s: float) -> None:
        """Look at the standing and wish what follows from it, as the real agent does."""
        standing = self.driver.standing
        if self.driver.has_left or (self.wish.leave and self._after("give up", GIVES_UP_S, now_s)):
            self.is_gone = True
        elif standing.error is not None:
            self.leave(Outcome.UNSAVED, now_s, at_once=True)
        elif standing.closed is not None:
            self.leave(Outcome.DONE if standing.closed.succeeded else Outcome.FAILED, now_s)
        elif standing.round is None or self.wish.joining > standing.round.number:
            self._wait_for_round(standing, now_s)
        else:
            self._live_round(standing, standing.round.number, now_s)

    def _wait_for_round(self, standing: Standing, now_s: float) -> None:
        told = self.wish.notice is not None
        if told or (standing.notice is not None and standing.notice.scope is Scope.RUN):
            self.leave(Outcome.SAVED, now_s)
        elif self.wish.joining == 0:
            self.join(1, now_s)

    def join(self, number: int, now_s: float) -> None:
        """Ask for a round of at least that number."""
        self.wish = replace(self.wish, joining=number, joining_since_s=self.own_s(now_s))

    def _live_round(self, standing: Standing, number: int, now_s: float) -> None:
        self.started.setdefault(number, now_s)
        if standing.end is not None:
            if self._after(f"stop {number}", self.habits.stop_s, now_s):
                self.join(number + 1, now_s)
        elif self.infected.get(number, now_s + 1.0) <= now_s and self.wish.done != number:
            self.fail(number)
        elif standing.drain is not None:
            self._drain(standing, number, now_s)
        elif self.wish.done != number and self._after(f"work {number}", self.habits.work_s, now_s):
            self._finish_work(number, now_s)

    def _finish_work(self, number: int, now_s: float) -> None:
        if self.chance.random() >= self.habits.failure:
            self.wish = replace(self.wish, done=number)
            return
        self.fail(number, ran_s=now_s - self.started[number])
        if self.chance.random() < self.habits.closing:
            self.wish = replace(self.wish, close=CloseWish(82, "no progress"))

    def _drain(self, standing: Standing, number: int, now_s: float) -> None:
        if self.wish.done == number or standing.drain is None:
            return
        if self.wish.reported[0] != number and self._after(f"report {number}", 0.1, now_s):
            self.wish = replace(self.wish, reported=(number, int(now_s * self.habits.steps_per_s)))
        over = self._after(f"deadline {number}", standing.drain.seconds_left, now_s, spread=0.0)
        if standing.stop_step is None and not over:
            return
        if not over and not self._after(f"save {number}", self.habits.save_s, now_s):
            return
        if standing.drain.everybody or self.node in standing.drain.leaving or self.wish.notice is not None:
            self.leave(Outcome.SAVED, now_s)
        else:
            self.wish = replace(self.wish, end=EndWish(number, Cause.DRAIN))
            self.join(number + 1, now_s)

    def leave(self, outcome: Outcome, now_s: float, *, at_once: bool = False) -> None:
        """Say goodbye, soon or at once."""
        if self.wish.leave is None and (at_once or self._after("leave", 0.5, now_s)):
            self.wish = replace(self.wish, leave=LeaveWish(outcome, "simulated"))

    def _after(self, what: str, mean_s: float, now_s: float, *, spread: float = 0.5) -> bool:
        """Whether a drawn time has passed since this was first asked."""
        if what not in self.due:
            factor = self.chance.uniform(1.0 - spread, 1.0 + spread)
            self.due[what] = now_s + mean_s * factor
        return now_s >= self.due[what]
