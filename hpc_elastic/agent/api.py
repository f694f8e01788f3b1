"""The agent by its public names: what it manages, in which states, and what comes of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hpc_elastic import settings
from hpc_elastic.agent import spec_fields
from hpc_elastic.errors import HpcElasticError
from hpc_elastic.rendezvous.record import Member
from hpc_elastic.workers.failures import ProcessFailure

if TYPE_CHECKING:
    from hpc_elastic.agent.logs_specs import GivenStreams, LogsSpecs
    from hpc_elastic.rendezvous.api import RendezvousHandler
    from hpc_elastic.stores.base import Store

DEFAULT_ROLE: Final = "default"


@dataclass
class WorkerSpec:
    """The workers that one agent manages: the same number and program on every node of a role.

    `entrypoint` is a callable, or a command: a program found on the PATH, or a file `*.py` that runs under
    this Python. `args` are its arguments. Workers are started anew after at most `max_restarts` failures of
    the whole run, and looked at every `monitor_interval` seconds. `master_addr` and `master_port` stand in
    for what a round negotiates; `local_addr` is where ranks meet while this node is the first one, except
    where nodes are said to be identical and exchange nothing. `event_log_handler` names a sink of
    `hpc_elastic.events`. `log_dir` is the run's directory, `hpc_elastic_runs/<run id>` where it is not
    given; `redirects` and `tee` are torchrun's, here as `"3"`, `"0:1,1:2"`, a number, or a mapping from
    local ranks; `logs_specs` stands for all three. Lines with one of the `duplicate_*_filters` in them go
    to an aggregate log as well. `virtual_local_rank`: each worker sees LOCAL_RANK 0 and its own device
    alone. `numa_options`: `"exclusive"` gives each worker its equal share of this process's CPUs.

    Raises `BadWorkerSpec`, a `ValueError`, with the field, its value and what is allowed.
    """

    role: str
    local_world_size: int
    rdzv_handler: RendezvousHandler
    fn: Callable[..., Any] | None = None
    entrypoint: Callable[..., Any] | str | None = None
    args: tuple[Any, ...] = ()
    max_restarts: int = settings.MAX_RESTARTS
    monitor_interval: float = settings.MONITOR_INTERVAL_S
    master_addr: str | None = None
    master_port: int | None = None
    local_addr: str | None = None
    event_log_handler: str = "null"
    logs_specs: LogsSpecs | None = None
    log_dir: str | Path | None = None
    redirects: GivenStreams = None
    tee: GivenStreams = None
    duplicate_stdout_filters: Sequence[str] | None = None
    duplicate_stderr_filters: Sequence[str] | None = None
    start_method: str = "spawn"
    virtual_local_rank: bool = False
    numa_options: str | None = None

    def __post_init__(self) -> None:
        if self.fn is not None:
            spec_fields.warn_of_fn(stacklevel=4)
            self.entrypoint = self.fn
        self.args = spec_fields.arguments(self.args)
        spec_fields.check(self)

    def get_entrypoint_name(self) -> str:
        """The base name of the command, or the qualified name of the callable."""
        if isinstance(self.entrypoint, str):
            return Path(self.entrypoint).name
        return str(getattr(self.entrypoint, "__qualname__", repr(self.entrypoint)))


class Worker:
    """One worker. `id` is what its agent knows it by; ranks and sizes are -1 until assigned."""

    def __init__(
        self,
        local_rank: int,
        global_rank: int = -1,
        role_rank: int = -1,
        world_size: int = -1,
        role_world_size: int = -1,
    ) -> None:
        self.id: Any = None
        self.local_rank = local_rank
        self.global_rank = global_rank
        self.role_rank = role_rank
        self.world_size = world_size
        self.role_world_size = role_world_size

    def __str__(self) -> str:
        return (
            f"worker {self.id if self.id is not None else '(not started)'}: local rank {self.local_rank}, "
            f"rank {self.global_rank} of {self.world_size}, role rank {self.role_rank} of "
            f"{self.role_world_size}"
        )

    def __repr__(self) -> str:
        return f"<{self}>"


class WorkerState(str, Enum):
    """The state of a group's workers, which change it as a unit."""

    UNKNOWN = "UNKNOWN"  # the agent has lost sight of them; it ends, and the job's manager acts
    INIT = "INIT"  # made, not started
    HEALTHY = "HEALTHY"  # running
    UNHEALTHY = "UNHEALTHY"  # running, and to be restarted
    STOPPED = "STOPPED"  # stopped by the agent
    SUCCEEDED = "SUCCEEDED"  # all have ended with 0
    FAILED = "FAILED"  # one has ended otherwise

    @staticmethod
    def is_running(state: WorkerState) -> bool:
        """Whether worker processes exist in this state."""
        return state in (WorkerState.HEALTHY, WorkerState.UNHEALTHY)


class WorkerGroup:
    """The workers of one agent in one round, and the round as this agent knows it.

    Beside the fields that every agent has: `round_number`, the round's `members` by group rank, and
    `restart_count`, the failures of the run before it, the same on all nodes.
    """

    def __init__(self, spec: WorkerSpec) -> None:
        self.spec = spec
        self.workers = [Worker(local_rank) for local_rank in range(spec.local_world_size)]
        self.store: Store | None = None
        self.group_rank: int | None = None
        self.group_world_size: int | None = None
        self.master_addr: str | None = None
        self.master_port: int | None = None
        self.state = WorkerState.INIT
        self.round_number = 0
        self.restart_count = 0
        self.members: tuple[Member, ...] = ()


@dataclass
class RunResult:
    """What came of a group, or how it stands: values and failures by global rank, log files by global rank.

    The first of `failures` is the root cause, which may be a rank of another node.
    """

    state: WorkerState
    return_values: dict[int, Any] = field(default_factory=dict)
    failures: dict[int, ProcessFailure] = field(default_factory=dict)
    stdouts: dict[int, str] = field(default_factory=dict)
    stderrs: dict[int, str] = field(default_factory=dict)

    def is_failed(self) -> bool:
        """Whether the workers have failed."""
        return self.state is WorkerState.FAILED


class WorkerGroupFailureException(HpcElasticError):
    """Workers failed: what each of them raised, by global rank."""

    def __init__(self, msg: str, worker_excs: Mapping[int, BaseException]) -> None:
        super().__init__(msg)
        self._worker_excs = dict(worker_excs)

    def get_worker_exceptions(self) -> dict[int, BaseException]:
        """{global rank: exception}, the root cause first."""
        return self._worker_excs


@dataclass(frozen=True)
class MonitorResult:
    """A `RunResult` as older agents told it: values and exceptions by global rank, or None."""

    state: WorkerState
    ret_vals: dict[int, Any] | None = None
    exceptions: dict[int, BaseException] | None = None

    @classmethod
    def of(cls, result: RunResult) -> MonitorResult:
        """The same result."""
        exceptions = {rank: exception_of(failure) for rank, failure in result.failures.items()}
        return cls(result.state, result.return_values or None, exceptions or None)


def exception_of(failure: ProcessFailure) -> BaseException:
    """What the worker raised, where it could travel; else an exception with its message."""
    from hpc_elastic.workers import calling

    found = calling.exception_in(Path(failure.error_file))
    return found or HpcElasticError(failure.message)


def return_values(result: RunResult) -> dict[int, Any]:
    """{global rank: value} of a success. Raises `WorkerGroupFailureException` for a failure."""
    if not result.is_failed():
        return result.return_values
    excs = MonitorResult.of(result).exceptions or {}
    ranks = ", ".join(map(str, excs))
    first = next(iter(result.failures.values()), None)
    why = "" if first is None else f": {first.message}; the error file is {first.error_file}"
    raise WorkerGroupFailureException(f"ranks {ranks or 'unknown'} failed{why}", excs)


class ElasticAgent(ABC):
    """Manages the workers of one node: it starts, watches, restarts and stops them, whatever they are."""

    @abstractmethod
    def run(self, role: str = DEFAULT_ROLE) -> RunResult:
        """Run the workers until they have succeeded, or failed too often. Errors of the agent are raised."""

    @abstractmethod
    def get_worker_group(self, role: str = DEFAULT_ROLE) -> WorkerGroup:
        """The group as it stands; it belongs to the agent and is not to be changed."""
