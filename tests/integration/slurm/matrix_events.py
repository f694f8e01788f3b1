"""What else Slurm and people do to a job: time limit, cancel, signals, requeue, suspension."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from hpc_elastic.testing.sandbox.options import SandboxOptions
from tests.integration.slurm.bench import a_sandbox
from tests.integration.slurm.matrix import Observed, SignalTo, Submission
from tests.integration.slurm.matrix_run import Field, patient
from tests.waiting import wait_until

_STILL_S: Final = 1.5


@dataclass(frozen=True)
class Event:
    """One thing done to a job that trains; `limit` gives the job a time limit of two minutes instead.

    What `stops_others`, such as a preemption, is done to a job when all others are over.
    """

    act: Callable[[Field, str], object] = lambda field, job: None
    limited: bool = False
    stops_others: bool = False
    signal_to: SignalTo = "steps"

    @property
    def options(self) -> tuple[str, ...]:
        # Slurm's notice may come a minute early, and must not come before the job trains.
        lead = {"steps": ("--signal=USR2@30",), "B:": ("--signal=B:USR2@30",), "none": ()}[self.signal_to]
        return ("--time=2", *lead) if self.limited else ()


def _scancel(*options: str) -> Callable[[Field, str], object]:
    return lambda field, job: field.sandbox.run(["scancel", *options, job], check=True)


def _requeue(field: Field, job: str) -> None:
    field.sandbox.run(["scontrol", "requeue", job], check=True)


def _cancel_in_the_grace_time(field: Field, job: str) -> None:
    field.sandbox.preempt(job, seconds=1)
    # Not for ever on record: only until the job has left and is in the queue again.
    wait_until(
        lambda: field.sandbox.job(job)["PreemptTime"] != "None" or field.sandbox.job(job)["Restarts"] != "0",
        120.0,
        f"job {job} is preempted",
    )
    _scancel()(field, job)


def _suspend(field: Field, job: str) -> None:
    """Only an administrator may."""
    _scontrol(field, "suspend", job)
    seen = [(field.written(job), time.monotonic())]

    def stands_still() -> bool:
        if field.written(job) != seen[0][0]:
            seen[0] = (field.written(job), time.monotonic())
        return time.monotonic() - seen[0][1] > _STILL_S

    wait_until(stands_still, 120.0, f"job {job} is suspended")
    _scontrol(field, "resume", job)
    wait_until(lambda: field.written(job) > seen[0][0], 120.0, f"job {job} goes on")
    field.finish(job)


def _scontrol(field: Field, *words: str) -> None:
    subprocess.run(["scontrol", *words], env=field.sandbox.environment(), check=True, timeout=120)


EVENTS: Final[Mapping[str, Event]] = {
    "time limit, `--signal` to the steps": Event(limited=True),
    "time limit, `--signal=B:`": Event(limited=True, signal_to="B:"),
    "time limit, no `--signal`": Event(limited=True, signal_to="none"),
    "`scancel`": Event(_scancel()),
    "`scancel -b`": Event(_scancel("-b")),
    "`scancel -f`": Event(_scancel("-f")),
    "`scancel` in the grace time": Event(_cancel_in_the_grace_time, stops_others=True),
    "`scancel -s USR2`": Event(_scancel("-s", "USR2")),
    "`scancel -s TERM`": Event(_scancel("-s", "TERM")),
    "`scancel -b -s USR2`": Event(_scancel("-b", "-s", "USR2")),
    "`scancel -f -s USR2`": Event(_scancel("-f", "-s", "USR2")),
    "`scancel -f -s TERM`": Event(_scancel("-f", "-s", "TERM")),
    "`scontrol requeue`": Event(_requeue),
    "`scontrol suspend`, then `resume`": Event(_suspend),
}


def run_events(names: tuple[str, ...], patience: int = 1) -> dict[str, Observed]:
    """Do each of the named things to a job of its own, on one sandbox.

    Its grace time is 20 s; that and KillWait are `patience` times as long.
    """
    with a_sandbox(patient(SandboxOptions(nodes=4, cpus_per_node=6), patience)) as sandbox:
        field = Field.on(sandbox)
        chosen = {name: EVENTS[name] for name in names}
        jobs = {
            name: field.submit(Submission(event.signal_to, requeue=True), *event.options)
            for name, event in chosen.items()
        }
        field.wait_until_training(list(jobs.values()))
        seen: dict[str, Observed] = {}
        for is_last in (False, True):
            for name in (name for name, event in chosen.items() if event.stops_others is is_last):
                chosen[name].act(field, jobs[name])
            seen |= {
                name: field.wait_until_over(jobs[name])
                for name, event in chosen.items()
                if event.stops_others is is_last
            }
        return seen
