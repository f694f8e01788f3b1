"""The agent whose workers are processes of this host: callables and commands, by the parts that
`hpc-elastic run` is made of (`local_round.py` and what is below it)."""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from hpc_elastic import events, settings
from hpc_elastic.agent import resources, spec_fields
from hpc_elastic.agent.api import RunResult, WorkerGroup, WorkerSpec, WorkerState
from hpc_elastic.agent.inputs import WorkerEnd, WorkerFailed, WorkersGone, WorkersStuck
from hpc_elastic.agent.local_round import LocalRound
from hpc_elastic.agent.plan import Plan
from hpc_elastic.agent.rundir import RunDirectory
from hpc_elastic.agent.simple import SimpleElasticAgent
from hpc_elastic.clock import SYSTEM_CLOCK, Clock
from hpc_elastic.errors import HpcElasticError, NodeSuspect
from hpc_elastic.rendezvous import keys
from hpc_elastic.rendezvous.record import Round
from hpc_elastic.rendezvous.standing import Seat, Settings
from hpc_elastic.values import replace
from hpc_elastic.workers import calling, payload
from hpc_elastic.workers.failures import ProcessFailure
from hpc_elastic.workers.group import new_marker
from hpc_elastic.workers.guard import Guard
from hpc_elastic.workers.process import Kind, Program
from hpc_elastic.workers.streams import Filters

_ATTEMPT: Final = 1
_LOOK_S: Final = 0.02
_HOME: Final = "hpc_elastic_runs"
_CALLING: Final = "hpc_elastic.workers.calling"


class LocalElasticAgent(SimpleElasticAgent):
    """Runs a callable, or a command, `local_world_size` times on this host.

    A callable travels to its workers through cloudpickle, and what it returns travels back. Each worker is
    a process in a session of its own; all that workers have started ends with them, and with this agent.
    `environment` is what workers get in place of this process's own.

    Raises `UsageError` for a callable, or arguments, that cannot be pickled.
    """

    def __init__(
        self,
        spec: WorkerSpec,
        exit_barrier_timeout: float = settings.EXIT_BARRIER_TIMEOUT_S,
        shutdown_timeout: float = settings.SHUTDOWN_TIMEOUT_S,
        *,
        environment: Mapping[str, str] | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        super().__init__(spec, exit_barrier_timeout, shutdown_timeout, clock=clock)
        given = os.environ if environment is None else environment  # noqa: TID251 - made by users, so an edge
        self._environment = dict(given)
        self._logs = spec_fields.logs_of(spec)
        self._packed = None if isinstance(spec.entrypoint, str) else _packed(spec)
        self._marker = new_marker()
        self._guard: Guard | None = None
        self._private: Path | None = None
        self._round: LocalRound | None = None
        self._is_over = False

    @property
    def run_directory(self) -> RunDirectory:
        """Where logs, error files and events are."""
        home = Path(self._environment.get("HPC_ELASTIC_HOME") or _HOME)
        run_id = self._worker_group.spec.rdzv_handler.get_run_id()
        return RunDirectory(Path(self._logs.log_dir or home / keys.segment(run_id)).absolute())

    def _open_sink(self) -> events.Sink:
        place = events.Place(self.run_directory.path, _host())
        return events.open_sink(self._worker_group.spec.event_log_handler, place)

    def _invoke_run(self, role: str) -> RunResult:
        RunDirectory.prepare(self.run_directory.path, self._clock)
        if self._packed is not None:
            self._private = Path(tempfile.mkdtemp(prefix="hpc_elastic-"))
            payload.write(self._private / "payload.pkl", self._packed)
        with suppress(OSError):  # workers still end with this process; only their helpers might not
            self._guard = Guard.start(self._marker, str(self._private or ""))
        return super()._invoke_run(role)

    def _release(self) -> None:
        super()._release()
        if self._guard is not None:
            self._guard.close()
        if self._private is not None:
            shutil.rmtree(self._private, ignore_errors=True)

    def _start_workers(self, worker_group: WorkerGroup) -> dict[int, Any]:
        rank = worker_group.group_rank or 0
        node = worker_group.members[rank].name
        self._is_over = False
        self._guard = self._guard and self._guard.renewed()
        self._round = LocalRound.start(
            self._plan(worker_group, node),
            self._agreed(worker_group),
            (_ATTEMPT, node, rank),
            marker=self._marker,
            guard=self._guard,
            clock=self._clock,
        )
        pids = self._round.pids()
        return dict(enumerate(pids))

    def _monitor_workers(self, worker_group: WorkerGroup) -> RunResult:
        ends, failed = self._look(told=False)
        files = self._log_files(worker_group)
        result = RunResult(
            WorkerState.HEALTHY,
            stdouts={worker: str(each.out) for worker, each in files.items()},
            stderrs={worker: str(each.err) for worker, each in files.items()},
        )
        if failed:
            result.state = WorkerState.FAILED
            result.failures = {end.global_rank: self._failure(end) for end in failed}
        elif ends is not None:
            self._close_round()
            result.state = WorkerState.SUCCEEDED
            ranks = sorted(end.global_rank for end in ends)  # they come in the order in which they ended
            result.return_values = {rank: self._value(rank) for rank in ranks}
        return result

    def _stop_workers(self, worker_group: WorkerGroup, is_restart: bool = False) -> None:  # noqa: ARG002
        local = self._round
        if local is None:
            return
        try:
            local.stop(self._clock.monotonic_s() + self._shutdown_timeout)
            while not self._has_ended():
                self._clock.sleep_s(_LOOK_S)
        finally:
            self._close_round()

    def _has_ended(self) -> bool:
        """Whether nothing of the workers is left, by a look at them."""
        self._look(told=True)
        return self._is_over

    def _look(self, *, told: bool) -> tuple[tuple[WorkerEnd, ...] | None, list[WorkerEnd]]:
        """How all workers ended, once they have, and those that have failed since the last look."""
        gone: tuple[WorkerEnd, ...] | None = None
        failed: list[WorkerEnd] = []
        local = self._round
        for each in () if local is None else local.look(told=told):
            match each:
                case WorkerFailed(end):
                    failed.append(end)
                case WorkersGone(ends):
                    self._is_over, gone = True, ends
                case WorkersStuck(message):
                    self._is_over = True
                    raise NodeSuspect(f"{message}; start nothing more on {_host()} and have it checked")
        return gone, failed

    def _close_round(self) -> None:
        local, self._round = self._round, None
        if local is not None:
            local.close()

    def _plan(self, group: WorkerGroup, node: str) -> Plan:
        spec, size = group.spec, len(group.members)
        return Plan(
            run_id=spec.rdzv_handler.get_run_id(),
            directory=self.run_directory,
            program=self._program(),
            seat=Seat(node, group.group_rank or 0, _host(), "", spec.local_world_size, spec.role),
            settings=replace(Settings(size, size, size), max_restarts=spec.max_restarts),
            environment=self._environment_of_workers(),
            console=self._logs.console(),
            cpus=resources.cpus(self._environment),
            monitor_interval_s=spec.monitor_interval,
            virtual_local_rank=spec.virtual_local_rank,
            splits_cpus=spec.numa_options is not None,
            filters=Filters(
                out=tuple(spec.duplicate_stdout_filters or ()), err=tuple(spec.duplicate_stderr_filters or ())
            ),
        )

    def _program(self) -> Program:
        spec = self._worker_group.spec
        if isinstance(spec.entrypoint, str):
            return Program(spec_fields.kind_of(spec.entrypoint), spec.entrypoint, tuple(map(str, spec.args)))
        folder = self._folder()
        return Program(Kind.MODULE, _CALLING, (str(folder / "payload.pkl"), str(folder / "results")))

    def _environment_of_workers(self) -> dict[str, str]:
        if self._packed is None:
            return self._environment
        # A worker must find this package, wherever this process has it from; last, to shadow nothing.
        root = str(Path(__file__).resolve().parents[2])
        known = self._environment.get("PYTHONPATH", "")
        return {**self._environment, "PYTHONPATH": f"{known}{os.pathsep}{root}" if known else root}

    def _agreed(self, group: WorkerGroup) -> Round:
        """The round as the run record would have it: what environment and ranks are made from."""
        return Round(
            number=group.round_number,
            attempts=(_ATTEMPT,),
            members=group.members,
            master_address=group.master_addr or "",
            master_port=group.master_port or 0,
            why="",
            failures=group.restart_count,
            changes=max(0, self._telemetry.restarts - group.restart_count),
            created_at="",
            writer="",
        )

    def _log_files(self, group: WorkerGroup) -> dict[int, Any]:
        from hpc_elastic.workers.logs import LogFiles

        folder = self.run_directory.logs(_ATTEMPT, group.round_number)
        return {worker.global_rank: LogFiles.of(folder, worker.global_rank) for worker in group.workers}

    def _failure(self, end: WorkerEnd) -> ProcessFailure:
        group = self._worker_group
        folder = self.run_directory.errors(_ATTEMPT, group.round_number)
        read = ProcessFailure.read(
            local_rank=end.local_rank,
            global_rank=end.global_rank,
            pid=group.workers[end.local_rank].id,
            exitcode=end.returncode,
            error_file=folder / f"{end.global_rank}.json",
            now_s=float(_wall_time_s()),
            node=group.members[group.group_rank or 0].name,
        )
        # What was killed has left no word about it; its agent may know more.
        return read if read.message.startswith(end.message) else replace(read, message=end.message)

    def _value(self, rank: int) -> Any:
        """What the callable returned on `rank`; None for a command, or where it ended its process itself."""
        if self._packed is None:
            return None
        path = calling.result_path(self._folder() / "results", self._worker_group.round_number, rank)
        if not path.exists():
            return None
        try:
            return payload.unpack_value(path.read_bytes())
        except Exception as why:
            raise HpcElasticError(
                f"the value of rank {rank} cannot be loaded by its agent ({type(why).__name__}: {why}); "
                "return plain data, or objects whose modules the agent can import"
            ) from why

    def _folder(self) -> Path:
        if self._private is None:
            raise HpcElasticError("an agent that does not run: call run() first")
        return self._private


def _packed(spec: WorkerSpec) -> bytes:
    function = spec.entrypoint
    if not callable(function):
        raise TypeError(f"entrypoint {function!r}: expected a callable")
    return payload.pack(payload.Payload(function, spec.args, {}), payload.search_path())


def _host() -> str:
    return socket.gethostname().partition(".")[0]


def _wall_time_s() -> int:
    import time

    return time.time_ns() // 1_000_000_000
