"""A controller that stands still, or is ended and started again, at three moments of a job's life."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Final, Protocol

from hpc_elastic.testing.sandbox import daemons, processes, state
from hpc_elastic.testing.sandbox.daemons import Launcher
from hpc_elastic.testing.sandbox.options import SandboxOptions
from hpc_elastic.testing.sandbox.processes import ProcessId
from hpc_elastic.testing.sandbox.sandbox import Sandbox
from tests.integration.slurm.bench import a_sandbox
from tests.integration.slurm.matrix import Observed, Submission
from tests.integration.slurm.matrix_run import Field
from tests.waiting import wait_until

MOMENTS: Final = ("while it trains", "at the notice", "when its agents have left")
_USUAL: Final = Submission("steps", requeue=True)


@dataclass(frozen=True)
class Seen:
    """One job: how often it had to come back, what became of it, and the bytes its ranks wrote
    while the controller was away."""

    requeues: int
    job: Observed
    written_meanwhile: int


class Away(Protocol):
    """Takes the controller of a sandbox away for the time of a `with` block."""

    def __call__(self, sandbox: Sandbox, /) -> AbstractContextManager[None]: ...


@contextmanager
def stands_still(sandbox: Sandbox) -> Iterator[None]:
    """Requests wait meanwhile, and are answered afterwards."""
    controller = _controller(sandbox)
    processes.send(controller, signal.SIGSTOP)
    try:
        yield
    finally:
        processes.send(controller, signal.SIGCONT)


@contextmanager
def is_ended(sandbox: Sandbox) -> Iterator[None]:
    """Requests fail meanwhile. Of a node that finishes with a job in this time it learns a minute later."""
    controller = _controller(sandbox)
    processes.send(controller, signal.SIGTERM)
    wait_until(lambda: not processes.is_alive(controller), 120.0, "the controller has ended")
    try:
        yield
    finally:
        found = state.read(sandbox.layout)
        assert found is not None
        daemons.start_slurmctld(Launcher(sandbox.layout, found))
        wait_until(sandbox.node_states, 120.0, "the controller answers")


def run_stops(seconds: float, last: Away) -> dict[str, Seen]:
    """Three jobs, and for each `seconds` without a controller at another moment, for the third by `last`."""
    with a_sandbox(SandboxOptions(nodes=4, cpus_per_node=2)) as sandbox:
        field = Field.on(sandbox)
        jobs = [field.submit(_USUAL, f"--nodelist={nodes}") for nodes in ("n3,n4", "n1,n2", "n3,n4")]
        field.wait_until_training(jobs)
        undisturbed, told, left = jobs

        with stands_still(sandbox):
            meanwhile = _written_in(field, undisturbed, seconds)
        field.finish(undisturbed)
        seen = [Seen(0, field.wait_until_over(undisturbed), meanwhile)]

        sandbox.preempt(told, seconds=1)
        wait_until(lambda: _are_told(field, told), 120.0, f"job {told} has its notice")
        with stands_still(sandbox):
            meanwhile = _written_in(field, told, seconds)
        sandbox.preempt(left, seconds=1)
        wait_until(lambda: _have_left(field, left), 120.0, f"the agents of job {left} have left")
        with last(sandbox):
            threading.Event().wait(seconds)
        seen += [Seen(1, field.wait_until_over(told), meanwhile), Seen(1, field.wait_until_over(left), 0)]
        return dict(zip(MOMENTS, seen, strict=True))


def _written_in(field: Field, job: str, seconds: float) -> int:
    before = field.written(job)
    threading.Event().wait(seconds)
    return field.written(job) - before


def _are_told(field: Field, job: str) -> bool:
    paths = list(field.bench.run_dir(job).glob("logs/1/*/*.out"))
    return all("told " in path.read_text() for path in paths)


def _have_left(field: Field, job: str) -> bool:
    found = field.bench.run(job).presences
    return bool(found) and all(one.outcome is not None for one in found)


def _controller(sandbox: Sandbox) -> ProcessId:
    found = state.read(sandbox.layout)
    controller = None if found is None else found.process_of("slurmctld")
    assert controller is not None
    return controller
