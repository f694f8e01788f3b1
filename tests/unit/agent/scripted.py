"""An agent whose workers follow a script, over a rendezvous of fixed rounds, by a clock of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hpc_elastic.agent import RunResult, SimpleElasticAgent, WorkerGroup, WorkerSpec, WorkerState
from hpc_elastic.errors import RendezvousClosedError
from hpc_elastic.rendezvous import RendezvousHandler, RendezvousInfo, RendezvousStoreInfo
from hpc_elastic.stores.memory import MemoryStore
from hpc_elastic.workers.failures import ProcessFailure

HEALTHY, SUCCEEDED, FAILED = WorkerState.HEALTHY, WorkerState.SUCCEEDED, WorkerState.FAILED


class LeapingClock:
    """Time that passes only where somebody waits; `then` are told of each wait."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.then: list[Callable[[float], None]] = []

    def monotonic_s(self) -> float:
        return self.now_s

    def sleep_s(self, seconds: float) -> None:
        self.now_s += max(seconds, 0.001)
        for told in self.then:
            told(self.now_s)

    def utc_now(self) -> str:
        return "2026-01-01T00:00:00+00:00"


class FixedRounds(RendezvousHandler):
    """Gives rounds of `world_size` nodes at once, each with a new store, to the node of one rank."""

    def __init__(self, rank: int = 0, world_size: int = 1, clock: LeapingClock | None = None) -> None:
        self.clock = clock or LeapingClock()
        self.rank, self.world_size = rank, world_size
        self.story: list[str] = []
        self.rounds: list[MemoryStore] = []
        self.waiting = 0
        self.closed = False
        self.peers: Callable[[MemoryStore], None] | None = None
        self.raises: BaseException | None = None

    def get_backend(self) -> str:
        return "fixed"

    def get_run_id(self) -> str:
        return "run"

    def next_rendezvous(self) -> RendezvousInfo:
        self.story.append("rendezvous")
        if self.raises is not None:
            raise self.raises
        if self.closed:
            raise RendezvousClosedError("run run is closed")
        self.waiting = 0
        store = MemoryStore(clock=self.clock)
        self.rounds.append(store)
        if self.peers is not None:
            self.peers(store)
        names = tuple(f"n{rank}" for rank in range(self.world_size))
        meets_at = RendezvousStoreInfo("host0", 29500)
        return RendezvousInfo(
            store, self.rank, self.world_size, meets_at, participants=names, round_number=len(self.rounds)
        )

    def is_closed(self) -> bool:
        return self.closed

    def set_closed(self) -> None:
        self.story.append("closed")
        self.closed = True

    def num_nodes_waiting(self) -> int:
        return self.waiting

    def pre_shutdown(self) -> None:
        self.story.append("pre_shutdown")

    def shutdown(self) -> bool:
        self.story.append("shutdown")
        return True


class ScriptedAgent(SimpleElasticAgent):
    """Each look at the workers gives the next result of the script, the last one again and again."""

    def __init__(
        self, spec: WorkerSpec, script: Sequence[RunResult], clock: LeapingClock, **times: Any
    ) -> None:
        super().__init__(spec, clock=clock, **times)
        self.script = list(script)
        self.starts: list[tuple[int, list[int]]] = []
        self.stops: list[bool] = []
        self.raises_at_start: Exception | None = None

    def _start_workers(self, worker_group: WorkerGroup) -> dict[int, Any]:
        ranks = [worker.global_rank for worker in worker_group.workers]
        self.starts.append((worker_group.restart_count, ranks))
        if self.raises_at_start is not None:
            raise self.raises_at_start
        return {worker.local_rank: f"id{worker.global_rank}" for worker in worker_group.workers}

    def _stop_workers(self, worker_group: WorkerGroup, is_restart: bool = False) -> None:
        self.stops.append(is_restart)

    def _monitor_workers(self, worker_group: WorkerGroup) -> RunResult:
        return self.script.pop(0) if len(self.script) > 1 else self.script[0]


def failure(rank: int = 0, message: str = "exited with status 3") -> ProcessFailure:
    return ProcessFailure(0, 4711, 3, f"/errors/{rank}.json", message, 1, global_rank=rank, node=f"n{rank}")


def failed(rank: int = 0) -> RunResult:
    return RunResult(FAILED, failures={rank: failure(rank)})


def succeeded(**values: Any) -> RunResult:
    return RunResult(SUCCEEDED, return_values={int(rank[1:]): value for rank, value in values.items()})


def spec_of(handler: RendezvousHandler, **given: Any) -> WorkerSpec:
    fields: dict[str, Any] = {"role": "trainer", "local_world_size": 2, "entrypoint": "train.py", **given}
    return WorkerSpec(rdzv_handler=handler, **fields)


def agent_of(handler: FixedRounds, *script: RunResult, times: Any = None, **given: Any) -> ScriptedAgent:
    return ScriptedAgent(spec_of(handler, **given), script, handler.clock, **(times or {}))
