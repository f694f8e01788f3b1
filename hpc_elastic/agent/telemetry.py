"""What an API agent tells machines: an event per state of a worker, per outcome and phase, and metrics.

Nothing in here raises: what an agent could not tell must not decide over a run.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from hpc_elastic import events
from hpc_elastic.agent.api import RunResult, Worker, WorkerGroup, WorkerState
from hpc_elastic.clock import Clock
from hpc_elastic.events import Event, EventMetadataValue, EventSource
from hpc_elastic.metrics import put_metric
from hpc_elastic.workers.failures import ProcessFailure

STARTING: Final = "STARTING"
TERMINATED: Final = "TERMINATED"


class Telemetry:
    """The teller of one agent. The sink is opened with the first event."""

    def __init__(self, group: WorkerGroup, open_sink: Callable[[], events.Sink], clock: Clock) -> None:
        self._group = group
        self._open_sink = open_sink
        self._sink: events.Sink | None = None
        self._clock = clock
        self._began_s = clock.monotonic_s()
        self.restarts = 0

    def begin(self) -> None:
        """A run begins now."""
        self._began_s = self._clock.monotonic_s()

    def write(self, event: Event) -> None:
        """Pass one event on."""
        with suppress(Exception):
            self._sink = self._sink or self._open_sink()
            self._sink.write(event)

    def close(self) -> None:
        """Let go of the sink."""
        sink, self._sink = self._sink, None
        if sink is not None:
            with suppress(Exception):
                sink.close()

    def of_agent(self, state: str, **more: EventMetadataValue) -> Event:
        """An event about the agent itself."""
        return self._event(state, EventSource.AGENT, more)

    def of_worker(self, state: str, worker: Worker, **more: EventMetadataValue) -> Event:
        """An event about one worker."""
        about: dict[str, EventMetadataValue] = {
            "worker_id": None if worker.id is None else str(worker.id),
            "global_rank": worker.global_rank,
            "local_rank": worker.local_rank,
            "role_rank": worker.role_rank,
            "role_world_size": worker.role_world_size,
        }
        return self._event(state, EventSource.WORKER, {**about, **more})

    def workers(self, state: str) -> None:
        """All workers are in this state."""
        for worker in self._group.workers:
            self.write(self.of_worker(state, worker))

    def result(self, result: RunResult) -> None:
        """How the workers ended: one that failed, siblings that were healthy, or all well."""
        for worker in self._group.workers:
            failure = result.failures.get(worker.global_rank)
            if failure is not None:
                event = self._of_failed(worker, failure)
            else:
                event = self.of_worker(TERMINATED if result.is_failed() else result.state.value, worker)
            self.write(event)

    def _of_failed(self, worker: Worker, failure: ProcessFailure) -> Event:
        return self.of_worker(
            WorkerState.FAILED.value,
            worker,
            raw_error=failure.message,
            exit_code=failure.exitcode,
            worker_pid=failure.pid,
        )

    def looked(self, state: WorkerState, remaining: int) -> None:
        """One look at the workers, as metrics."""
        role = self._group.spec.role
        put_metric(f"workers.{role}.remaining_restarts", remaining)
        put_metric(f"workers.{role}.{state.name.lower()}", 1)

    def ended(self, result: RunResult, remaining: int) -> None:
        """The outcome of a run, as metrics."""
        spec = self._group.spec
        role, most, is_failed = spec.role, spec.max_restarts, result.is_failed()
        outcome = "failed" if is_failed else "success"
        how = "with" if remaining != most else "no"
        put_metric(f"workers.{role}.run_total", 1)
        for each in ("success", "failed"):
            for kind in ("with", "no"):
                is_it = (each, kind) == (outcome, how)
                put_metric(f"workers.{role}.run_{each}_{kind}_retries", 1 if is_it else 0)
        put_metric(f"workers.{role}.flakiness", flakiness(remaining, most, is_failed=is_failed))

    def _event(self, state: str, source: EventSource, more: dict[str, EventMetadataValue]) -> Event:
        group, handler = self._group, self._group.spec.rdzv_handler
        known: dict[str, EventMetadataValue] = {
            "run_id": handler.get_run_id(),
            "entry_point": group.spec.get_entrypoint_name(),
            "group_rank": group.group_rank,
            "group_world_size": group.group_world_size,
            "role": group.spec.role,
            "hostname": socket.gethostname(),
            "total_run_time": round(self._clock.monotonic_s() - self._began_s, 3),
            "rdzv_backend": handler.get_backend(),
            "round": group.round_number,
            "agent_restarts": self.restarts,
        }
        return events.status_event(state, source, {**known, **more})


def flakiness(remaining: int, most: int, *, is_failed: bool) -> float:
    """How much of the restart budget was needed, in percent; 100 for a failure."""
    return 100.0 if is_failed else 100.0 - 100.0 * (remaining + 1) / (most + 1)
