"""What a bystander sees of a run: its record, its job and the output of its ranks."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from hpc_elastic.clock import Clock
from hpc_elastic.rendezvous.record import NodeState, Outcome, Presence
from hpc_elastic.status import snapshot
from hpc_elastic.status.snapshot import RoundSnapshot, RunSnapshot

T = TypeVar("T")

_LOOK_EVERY_S: Final = 0.1
_STEP = re.compile(r"^step (\d+) loss", re.MULTILINE)
_START = re.compile(r"^rank \d+ of \d+ starts at step (\d+) of", re.MULTILINE)
_ACCURACY = re.compile(r"test accuracy ([0-9.]+)")


@dataclass(frozen=True)
class JobLook:
    """The job as its scheduler shows it."""

    state: str
    restarts: int


@dataclass(frozen=True)
class Seen:
    """One look at everything. `logs` holds the standard output of each rank by (round, rank)."""

    run: RunSnapshot
    job: JobLook
    logs: dict[tuple[int, int], str]

    @property
    def rounds(self) -> tuple[RoundSnapshot, ...]:
        """The rounds that started workers."""
        return tuple(one for one in self.run.rounds if one.has_started)

    def step(self, round_number: int) -> int:
        """The last step that rank 0 of a round has told of, -1 before the first."""
        steps = _STEP.findall(self.logs.get((round_number, 0), ""))
        return int(steps[-1]) if steps else -1

    def first_steps(self, round_number: int) -> dict[int, int]:
        """The step at which each rank of a round said that it starts."""
        told = {
            rank: _START.search(text) for (number, rank), text in self.logs.items() if number == round_number
        }
        return {rank: int(found.group(1)) for rank, found in told.items() if found}

    @property
    def accuracy(self) -> float | None:
        """What rank 0 said at its end."""
        found = [match for text in self.logs.values() if (match := _ACCURACY.search(text))]
        return float(found[-1].group(1)) if found else None

    def nodes_of(self, attempt: int) -> tuple[Presence, ...]:
        """The presences of one attempt, in node order."""
        return tuple(one for one in self.run.presences if one.attempt == attempt)

    def all_left(self, attempt: int) -> bool:
        """Whether every node of an attempt has left."""
        nodes = self.nodes_of(attempt)
        return bool(nodes) and all(one.state is NodeState.LEFT for one in nodes)

    def all_saved(self, attempt: int) -> bool:
        """Whether every node of an attempt left with everything saved."""
        nodes = self.nodes_of(attempt)
        return bool(nodes) and all(one.outcome is Outcome.SAVED for one in nodes)


class StoryBroken(Exception):
    """Something that belongs to the story did not happen in time."""


@dataclass(frozen=True)
class Watch:
    """Looks at one run again and again. Times count from `began_s` on the clock given."""

    run_dir: Path
    job: Callable[[], JobLook]
    clock: Clock
    began_s: float

    def look(self) -> Seen:
        """Everything as it is now."""
        run = snapshot.read(self.run_dir)
        return Seen(run, self.job(), _logs(self.run_dir, run))

    def until(self, what: str, condition: Callable[[Seen], T], timeout_s: float) -> tuple[T, Seen]:
        """The first true value of `condition`, with the look that gave it.

        Raises `StoryBroken` after `timeout_s`, and at once when the job ends as it should not.
        """
        deadline_s = self.clock.monotonic_s() + timeout_s
        while True:
            seen = self.look()
            if value := condition(seen):
                return value, seen
            if self.clock.monotonic_s() > deadline_s:
                raise StoryBroken(f"{what}: not within {timeout_s:g} s; the job is {seen.job.state}")
            if seen.job.state in ("FAILED", "CANCELLED", "NODE_FAIL", "TIMEOUT", "OUT_OF_MEMORY"):
                raise StoryBroken(f"{what}: the job has ended before, {seen.job.state}")
            self.clock.sleep_s(_LOOK_EVERY_S)

    @property
    def elapsed_s(self) -> float:
        """Seconds since the beginning of the story."""
        return self.clock.monotonic_s() - self.began_s


def _logs(run_dir: Path, run: RunSnapshot) -> dict[tuple[int, int], str]:
    found: dict[tuple[int, int], str] = {}
    for one in run.rounds:
        for path in (run_dir / "logs" / str(one.attempt) / str(one.number)).glob("*.out"):
            if path.stem.isdecimal():
                found[one.number, int(path.stem)] = path.read_text(errors="replace")
    return found
