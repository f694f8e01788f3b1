"""The loop of an agent over any rendezvous, with three hooks for the workers: `SimpleElasticAgent`.

Meet, assign ranks, start, look at the workers now and then, and go by the two tables of `policy.py`. How
a round ended is agreed through its store (`board.py`), so that all agents of the round count the same
failures and name the same root cause. Why this is not the machine of `hpc-elastic run`:
docs/decisions/0006-two-agents.md.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

from hpc_elastic import events, settings
from hpc_elastic.agent import meeting, policy, spec_fields
from hpc_elastic.agent.api import (
    DEFAULT_ROLE,
    ElasticAgent,
    RunResult,
    WorkerGroup,
    WorkerSpec,
    WorkerState,
)
from hpc_elastic.agent.board import Board, EndCause, Introduction, RoundEnd
from hpc_elastic.agent.death_signals import DeathSignals
from hpc_elastic.agent.exit_barrier import await_peers, failed_by, note_failure
from hpc_elastic.agent.policy import Next
from hpc_elastic.agent.telemetry import STARTING, Telemetry
from hpc_elastic.clock import SYSTEM_CLOCK, Clock
from hpc_elastic.errors import (
    RendezvousClosedError,
    RendezvousGracefulExitError,
    RendezvousStateError,
    SignalException,
    WorkerStateError,
)
from hpc_elastic.events import Event
from hpc_elastic.metrics import prof

IDENTICAL_VARIABLE: Final = "HPC_ELASTIC_WORKER_IDENTICAL"

_LOOK_AT_BOARD_S: Final = 1.0
_BEAT_S: Final = 10.0


class SimpleElasticAgent(ElasticAgent):
    """An agent whose subclass supplies `_start_workers`, `_stop_workers` and `_monitor_workers`.

    `exit_barrier_timeout` is how long, in seconds, a node whose workers have succeeded waits for peers
    that give no sign of life; `shutdown_timeout` how long workers may take to stop, whatever the reason.
    To be run once. In the main thread it catches the death signals while it runs.

    Raises `BadWorkerSpec` for a time that is none.
    """

    def __init__(
        self,
        spec: WorkerSpec,
        exit_barrier_timeout: float = settings.EXIT_BARRIER_TIMEOUT_S,
        shutdown_timeout: float = settings.SHUTDOWN_TIMEOUT_S,
        *,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._worker_group = WorkerGroup(spec)
        self._exit_barrier_timeout = spec_fields.timeout_s("exit_barrier_timeout", exit_barrier_timeout)
        self._shutdown_timeout = spec_fields.timeout_s("shutdown_timeout", shutdown_timeout)
        self._clock = clock
        self._signals = DeathSignals()
        self._telemetry = Telemetry(self._worker_group, self._open_sink, clock)
        self._board: Board | None = None
        self._is_identical = os.environ.get(IDENTICAL_VARIABLE) == "1"  # noqa: TID251 - made by users, so an edge
        self._failures = 0  # of the whole run, as far as this node knows
        self._may_run = False  # workers may exist
        self._next_look_s = self._next_beat_s = self._began_s = 0.0

    @abstractmethod
    def _start_workers(self, worker_group: WorkerGroup) -> dict[int, Any]:
        """Start all workers; {local rank: id}. What is raised ends the run for this node."""

    @abstractmethod
    def _stop_workers(self, worker_group: WorkerGroup, is_restart: bool = False) -> None:
        """End all workers that run, within the shutdown timeout, and return once they are gone."""

    @abstractmethod
    def _monitor_workers(self, worker_group: WorkerGroup) -> RunResult:
        """How the workers stand now; soon."""

    def get_worker_group(self, role: str = DEFAULT_ROLE) -> WorkerGroup:  # noqa: ARG002 - as in run
        return self._worker_group

    def get_event_succeeded(self) -> Event:
        """The event that the run has succeeded on this node."""
        return self._telemetry.of_agent(WorkerState.SUCCEEDED.value)

    def get_event_failed(self) -> Event:
        """The event that the run has failed on this node; with the error that is being handled."""
        import traceback

        text = traceback.format_exc()
        return self._telemetry.of_agent(
            WorkerState.FAILED.value, raw_error=None if text.startswith("NoneType") else text
        )

    @contextmanager
    def record_duration(self, state: str) -> Iterator[None]:
        """Tell by an event how long the block took."""
        began_s = self._clock.monotonic_s()
        try:
            yield
        finally:
            took_ms = round((self._clock.monotonic_s() - began_s) * 1000, 3)
            self._telemetry.write(self._telemetry.of_agent(state, duration_ms=took_ms))

    def run(self, role: str = DEFAULT_ROLE) -> RunResult:
        """Run until the workers have succeeded everywhere, or the budget of failures is spent.

        Raises `SignalException` after a death signal, and errors of the rendezvous and of the hooks. Workers
        and rendezvous are released in any case.
        """
        self._telemetry.begin()
        with self._signals.caught():
            try:
                result = self._invoke_run(role)
            except RendezvousGracefulExitError:
                result = RunResult(WorkerState.SUCCEEDED)
            except BaseException:
                self._telemetry.write(self.get_event_failed())
                raise
            else:
                self._telemetry.ended(result, self._remaining_restarts)
                self._telemetry.write(
                    self.get_event_failed() if result.is_failed() else self.get_event_succeeded()
                )
            finally:
                self._release()
        return result

    @property
    def _remaining_restarts(self) -> int:
        return max(0, self._worker_group.spec.max_restarts - self._failures)

    def _open_sink(self) -> events.Sink:
        return events.open_sink(self._worker_group.spec.event_log_handler, events.Place())

    def _release(self) -> None:
        """Give everything back; what fails here changes nothing about the outcome."""
        group, handler = self._worker_group, self._worker_group.spec.rdzv_handler
        with suppress(Exception):
            handler.pre_shutdown()
        with suppress(Exception):
            self._stop(group)
        with suppress(Exception):
            handler.shutdown()
        self._telemetry.close()

    def _stop(self, group: WorkerGroup, *, is_restart: bool = False) -> None:
        if not self._may_run:
            return
        was_healthy = group.state is WorkerState.HEALTHY
        self._stop_workers(group, is_restart=is_restart)
        self._may_run = False
        group.state = WorkerState.STOPPED
        if was_healthy:
            self._telemetry.workers(WorkerState.STOPPED.value)

    def _invoke_run(self, role: str) -> RunResult:  # noqa: ARG002 - one role for each agent
        group, spec = self._worker_group, self._worker_group.spec
        self._initialize_workers(group)
        while True:
            self._pause(spec.monitor_interval)
            result = self._monitor_workers(group)
            group.state = result.state
            self._may_run = self._may_run and result.state is not WorkerState.SUCCEEDED
            self._telemetry.looked(result.state, self._remaining_restarts)
            end = self._end_of_round(group, result)
            if end is None:
                continue
            last = self._follow(end, result)
            if last is not None:
                return last
            try:
                self._restart_workers(group)
            except RendezvousClosedError:
                # The node whose worker failed had no restart left, by its own budget.
                if end.cause is not EndCause.FAILED:
                    raise
                return failed_by(end, result)

    def _end_of_round(self, group: WorkerGroup, result: RunResult) -> RoundEnd | None:
        """How the round ended, or None while it goes on."""
        board = self._on_board()
        waiting = group.spec.rdzv_handler.num_nodes_waiting() if result.state is WorkerState.HEALTHY else 0
        rank = -1 if group.group_rank is None else group.group_rank
        match policy.of_state(result.state, waiting):
            case Next.MEET:
                self._telemetry.result(result)
                return self._exit_barrier()
            case Next.END_FAILED:
                self._telemetry.result(result)
                first = next(iter(result.failures.values()), None)
                return board.end_round(RoundEnd(EndCause.FAILED, rank, first))
            case Next.END_MEMBERS:
                return board.end_round(RoundEnd(EndCause.MEMBERS, rank))
            case Next.GO_ON:
                return self._look_at_board(board)
            case _:
                raise WorkerStateError(
                    f"role {group.spec.role}: workers in state {result.state.value}, from which an agent "
                    "cannot go on; look at the node and let the job's manager start the run again"
                )

    def _follow(self, end: RoundEnd, result: RunResult) -> RunResult | None:
        """The result to leave with, or None to restart."""
        group = self._worker_group
        if end.cause is EndCause.FAILED:
            self._failures = note_failure(group, end)
        match policy.of_end(end.cause, self._failures, group.spec.max_restarts):
            case Next.LEAVE_DONE:
                self._close_done(end)
                return result
            case Next.GIVE_UP:
                self._give_up(group)
                return failed_by(end, result)
            case _:
                return None

    def _give_up(self, group: WorkerGroup) -> None:
        """End the workers, and the run for all nodes; a closing that is not taken undoes no failure."""
        try:
            self._stop(group)
        finally:
            group.state = WorkerState.FAILED
            with suppress(Exception):
                group.spec.rdzv_handler.set_closed()

    def _close_done(self, end: RoundEnd) -> None:
        """Let nodes that wait for a place know that nothing is left to do, if all agents agree that it is."""
        handler = self._worker_group.spec.rdzv_handler
        if end.group_rank >= 0:
            with suppress(Exception):
                handler.set_done()

    def _look_at_board(self, board: Board) -> RoundEnd | None:
        """Beat, and see whether another node has ended the round; both now and then only."""
        now_s = self._clock.monotonic_s()
        if now_s >= self._next_beat_s:
            self._next_beat_s = now_s + min(_BEAT_S, self._exit_barrier_timeout / 4)
            board.beat()
        if now_s < self._next_look_s:
            return None
        # Most rounds that end soon do so at once: a failure is heard of after a tenth of the round's age.
        age_s = now_s - self._began_s
        self._next_look_s = now_s + min(_LOOK_AT_BOARD_S, 0.1 * age_s)
        return board.end()

    @prof
    def _exit_barrier(self) -> RoundEnd:
        """Wait until all peers have succeeded, or one has ended the round otherwise.

        Only their silence is counted: a peer whose workers run on is waited for. Where peers stay silent,
        or the store does, this node's success stands.
        """
        done = RoundEnd(EndCause.DONE)  # without a rank: for this node alone
        try:
            with self.record_duration("EXIT_BARRIER"):
                board, group = self._on_board(), self._worker_group
                return await_peers(board, group, self._exit_barrier_timeout, self._pause) or done
        except SignalException:
            raise
        except Exception:  # noqa: BLE001 - see above
            self._telemetry.write(self.get_event_failed())
            return done

    @prof
    def _restart_workers(self, group: WorkerGroup) -> None:
        self._stop(group, is_restart=True)
        self._telemetry.restarts += 1
        self._initialize_workers(group)

    @prof
    def _initialize_workers(self, group: WorkerGroup) -> None:
        while True:
            self._rendezvous(group)
            if self._assign_worker_ranks(group):
                break
        self._telemetry.workers(STARTING)
        self._may_run = True
        for local_rank, given in self._start_workers(group).items():
            group.workers[local_rank].id = given
        group.state = WorkerState.HEALTHY
        self._next_look_s = self._next_beat_s = 0.0
        self._began_s = self._clock.monotonic_s()
        self._telemetry.workers(WorkerState.HEALTHY.value)

    @prof
    def _rendezvous(self, group: WorkerGroup) -> None:
        with self.record_duration("RENDEZVOUS"), self._signals.interruptible():
            info = group.spec.rdzv_handler.next_rendezvous()
            self._failures = meeting.enter(group, info, self._failures)
        self._board = Board(info.store, info.rank, info.world_size, self._clock)

    @prof
    def _assign_worker_ranks(self, group: WorkerGroup) -> bool:
        """Whether the ranks of the round could be assigned; else it was over before."""
        spec = group.spec
        mine = Introduction(spec.role, spec.local_world_size, self._failures, spec.local_addr or "")
        with self.record_duration("ASSIGN_WORKER_RANKS"), self._signals.interruptible():
            known = meeting.introductions(
                group, self._on_board(), mine, self._clock, is_identical=self._is_identical
            )
        if known is None:
            return False
        meeting.assign(group, known)
        self._failures = group.restart_count
        return True

    def _on_board(self) -> Board:
        if self._board is None:
            raise RendezvousStateError("an agent without a round: run() comes first")
        return self._board

    def _pause(self, seconds: float) -> None:
        with self._signals.interruptible():
            self._clock.sleep_s(seconds)
