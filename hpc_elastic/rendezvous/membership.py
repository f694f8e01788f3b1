"""An agent's membership in a run: it posts wishes, one keeper thread does all the I/O."""

from __future__ import annotations

import os
import threading
from typing import Any

from hpc_elastic.backends.base import Backend
from hpc_elastic.backends.file import FileBackend
from hpc_elastic.clock import SYSTEM_CLOCK, Clock, wait_in_slices
from hpc_elastic.errors import HpcElasticError, RendezvousStateError, UsageError
from hpc_elastic.rendezvous import keys
from hpc_elastic.rendezvous.addresses import is_loopback
from hpc_elastic.rendezvous.driver import Driver
from hpc_elastic.rendezvous.entry import find_attempt
from hpc_elastic.rendezvous.knocking import Knocker
from hpc_elastic.rendezvous.marks import Marks
from hpc_elastic.rendezvous.operations import finish
from hpc_elastic.rendezvous.patience import insist
from hpc_elastic.rendezvous.ports import HeldPort
from hpc_elastic.rendezvous.record import Attempt, Cause, Outcome, Reason, Scope
from hpc_elastic.rendezvous.seen import CloseWish, DrainWish, EndWish, LeaveWish, NoticeWish, Wish
from hpc_elastic.rendezvous.standing import JobStart, Seat, Settings, Standing
from hpc_elastic.values import replace


class Membership:
    """Thread-safe. The calls below `start` post a wish and wake the keeper; none touches the filesystem.

    What became of a wish shows in `standing()`. `fileno()` is readable when the standing has
    changed since the last `acknowledge()`.
    """

    def __init__(
        self,
        backend: Backend,
        driver: Driver,
        attempt: Attempt,
        node: str,
        clock: Clock,
        knocker: Knocker | None = None,
    ) -> None:
        self.attempt = attempt
        self.node = node
        self._backend = backend
        self._driver = driver
        self._clock = clock
        self._knocker = knocker
        self._has_been_knocked = threading.Event()
        self._wish = Wish()
        self._standing = driver.standing
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._is_over = threading.Event()
        self._has_left = threading.Event()
        self._marks = Marks()
        self._thread = threading.Thread(target=self._keep, name="hpc-elastic keeper", daemon=True)

    @classmethod
    def open(
        cls, backend: Backend, start: JobStart, seat: Seat, settings: Settings, clock: Clock = SYSTEM_CLOCK
    ) -> Membership:
        """Find or open the attempt of `start`, for the node at `seat`.

        Raises `UsageError` for an address that the other nodes cannot reach, `RecordLost` when the
        record stays out of reach for the store-lost budget.
        """
        _check_address(seat, settings)
        nonce = os.urandom(4).hex()
        attempt = insist(
            lambda: finish(find_attempt(start, f"{seat.name}-{nonce}", clock.utc_now()), backend),
            budget_s=settings.store_lost_s,
            clock=clock,
        )
        node = f"{attempt.number}-{keys.segment(seat.name)}-{nonce}"
        # Other backends tell of changes by themselves.
        knocker = Knocker.open(seat.address) if isinstance(backend, FileBackend) else None
        if knocker is not None:
            seat = replace(seat, ear=knocker.port)
        driver = Driver(node, attempt, seat, settings, HeldPort(seat.address))
        return cls(backend, driver, attempt, node, clock, knocker)

    def start(self) -> None:
        """Start the keeper thread, and listen."""
        if self._knocker is not None:
            self._knocker.start(self._hear_knock)
        self._thread.start()

    def standing(self) -> Standing:
        """The newest snapshot."""
        return self._standing

    def fileno(self) -> int:
        """A descriptor to select on."""
        return self._marks.fileno()

    def acknowledge(self) -> None:
        """Make `fileno()` quiet until the standing changes again. Raises `OSError` after `close`."""
        self._marks.take()

    def join(self) -> None:
        """Take part in the next round: the one after the present round, if there is one."""
        now_s = self._clock.monotonic_s()
        with self._lock:
            current = self._standing.round
            wanted = current.number + 1 if current else 1
            if wanted <= self._wish.joining:
                return
            self._wish = replace(self._wish, joining=wanted, joining_since_s=now_s)
        self._wake.set()

    def request_drain(
        self, reason: Reason, seconds_left: float, *, everybody: bool, leaving: tuple[str, ...] = ()
    ) -> None:
        """Ask that the present round stops at an agreed step; the first request of a round counts."""
        number = self._present_round("a drain")
        self._post(drain=DrainWish(number, reason, seconds_left, everybody, leaving))

    def announce(self, reason: Reason, scope: Scope, seconds_left: float, signal: str = "") -> None:
        """Record the notice of this attempt, and drain the present round for it.

        With scope RUN everybody is drained and no further round is formed in this attempt; with
        scope NODE this node alone leaves. The first notice of an attempt is the one that is kept.
        """
        now_s = self._clock.monotonic_s()
        self._post(notice=NoticeWish(reason, scope, seconds_left, now_s, signal))

    def better_notice(self, reason: Reason, scope: Scope, seconds_left: float, signal: str = "") -> None:
        """Record what has been learned about the cause of the notice."""
        now_s = self._clock.monotonic_s()
        self._post(cause=NoticeWish(reason, scope, seconds_left, now_s, signal))

    def report_step(self, step: int | None) -> None:
        """Say how far this node's ranks are since they know of the drain; None: no rank can tell."""
        number = self._present_round("a report")
        self._post(reported=(number, -1 if step is None else step))

    def end_round(
        self,
        cause: Cause,
        *,
        rank: int = -1,
        exit_code: int = 0,
        message: str = "",
        step: int = -1,
        ran_s: float = -1.0,
        node: str = "",
    ) -> None:
        """Say that the present round is over.

        After a drain, DRAIN and MEMBERS_JOINING say that this node's workers are all gone: the
        end is recorded when that holds for all members, or when their time is over.
        """
        number = self._present_round("an end")
        self._post(end=EndWish(number, cause, rank, exit_code, message, step, ran_s, node))

    def mark_done(self) -> None:
        """All workers of this node in the present round have finished their work."""
        self._post(done=self._present_round("being done"))

    def close_run(self, exit_code: int, message: str) -> None:
        """Close the run for this attempt: no further round is formed in it."""
        self._post(close=CloseWish(exit_code, message))

    def leave(self, outcome: Outcome, reason: str, timeout_s: float) -> bool:
        """Say goodbye and stop the keeper; whether the goodbye was recorded within `timeout_s`.

        After it nothing more is written. A drained round is ended by the last one who leaves it.
        """
        self._post(leave=LeaveWish(outcome, reason))
        was_running = self._thread.is_alive()
        written = was_running and wait_in_slices(self._has_left.wait, self._has_left.is_set, timeout_s)
        self._is_over.set()
        self._wake.set()
        if was_running:
            self._thread.join(timeout=1.0)
        return written

    def close(self) -> None:
        """Give back the descriptors. Only after `leave`, or before `start`."""
        if self._knocker is not None:
            self._knocker.close()
        self._marks.close()

    def _present_round(self, what: str) -> int:
        current = self._standing.round
        if current is None:
            raise RendezvousStateError(
                f"{what} belongs to a round, and no round of node {self.node} has started; "
                "call it once standing().round is set"
            )
        return current.number

    def _post(self, **changes: Any) -> None:
        with self._lock:
            self._wish = replace(self._wish, **changes)
        self._wake.set()

    def _keep(self) -> None:
        try:
            while not self._is_over.is_set():
                self._wake.clear()
                sleep_s = self._turn()
                if self._driver.has_left:
                    self._has_left.set()
                self._backend.wait(sleep_s, self._wake)
        except Exception as fault:  # noqa: BLE001 - a keeper that dies silently would look like a dead node
            error = HpcElasticError(f"the keeper of node {self.node} failed ({fault!r}); please report this")
            error.__cause__ = fault
            self._show(replace(self._standing, error=error))

    def _turn(self) -> float:
        with self._lock:
            wish = self._wish
        if self._has_been_knocked.is_set():
            self._has_been_knocked.clear()
            self._driver.look_soon()
        rings = self._driver.rings
        sleep_s = self._driver.step(self._backend, wish, self._clock.monotonic_s(), self._clock.utc_now())
        if self._knocker is not None and self._driver.rings != rings:
            self._knocker.knock(self._driver.ears())
        self._show(self._driver.standing)
        return sleep_s

    def _hear_knock(self) -> None:
        self._has_been_knocked.set()
        self._wake.set()

    def _show(self, standing: Standing) -> None:
        if standing == self._standing:
            return
        self._standing = standing
        self._marks.leave()


def _check_address(seat: Seat, settings: Settings) -> None:
    several = settings.min_nodes > 1 or (settings.max_nodes > 1 and settings.expected_nodes > 1)
    if settings.allow_loopback or not several or not is_loopback(seat.address):
        return
    raise UsageError(
        f"node {seat.name} has the address {seat.address}, which is loopback: the other nodes of a world of "
        f"{settings.min_nodes} to {settings.max_nodes} cannot reach it; give --local-addr, or set "
        "HPC_ELASTIC_ALLOW_LOOPBACK=1 where all nodes share one host"
    )
