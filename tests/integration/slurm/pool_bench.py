"""A run of many jobs on the sandbox, and what a test or a benchmark wants to know of it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from hpc_elastic.status.snapshot import RoundSnapshot, RunSnapshot
from hpc_elastic.testing.sandbox.sandbox import Sandbox
from tests.integration.slurm.bench import ENDED, ROOT, Bench
from tests.integration.slurm.takers import nodes_taken
from tests.waiting import wait_until

TRAINING = str(ROOT / "tests" / "integration" / "slurm" / "pool_training.py")
# Who has said nothing for three heartbeats is lost, and the last call is for nodes that start late: both are
# long, for a machine on which a process may stand still for some seconds.
CONF = "heartbeat=1.5,last_call_timeout=20,join_window=0.2"
# The first round is of all elements, however late one of them starts.
PATIENT = ("--rdzv-conf", CONF.replace("last_call_timeout=20", "last_call_timeout=120"))
_PATIENCE_S = 180.0


@dataclass
class Pool:
    """An array of one-node jobs that train together until `finish`."""

    bench: Bench
    array: str
    size: int
    last_seen: int = 0  # the round that was waited for last

    @classmethod
    def submit(
        cls,
        bench: Bench,
        *options: str,
        size: int = 4,
        least: int = 2,
        most: int = 0,
        throttle: str = "",
        run: tuple[str, ...] = (),
    ) -> Pool:
        """Elements that each take a node for themselves; the world has `most` of them, or all.

        `options` are sbatch's, `run` those of `hpc-elastic run`.
        """
        nodes = ("--pool", "--nnodes", f"{least}:{most or size}", "--rdzv-conf", CONF)
        words = (*nodes, *run, TRAINING, "0.05")
        array = bench.submit(
            f"--array=0-{size - 1}{throttle}", "-c2", "--output=%A_%a.out", *options, words=words
        )
        return cls(bench, array, size)

    @classmethod
    def of_one_job(cls, bench: Bench, nodes: int, most: int, *words: str) -> Pool:
        """A run of one job of so many nodes, which has room for `most`: others can join it."""
        given = ("--nnodes", f"{nodes}:{most}", "--rdzv-conf", CONF, *words, TRAINING, "0.05")
        return cls(bench, bench.submit(f"-N{nodes}", "-c2", words=given), 0)

    @property
    def sandbox(self) -> Sandbox:
        return self.bench.sandbox

    @property
    def checkpoints(self) -> Path:
        return self.bench.run_dir(self.array) / "checkpoints"

    def record(self) -> RunSnapshot:
        return self.bench.run(self.array)

    def rounds(self) -> list[RoundSnapshot]:
        return [one for one in self.record().rounds if one.has_started]

    def wait_for_world(self, size: int, timeout_s: float = _PATIENCE_S) -> RoundSnapshot:
        """The next round of that size whose ranks have all stepped, be it over by now or not."""
        try:
            wait_until(lambda: self._next_of(size) is not None, timeout_s, f"a world of {size}")
        except AssertionError as late:
            raise AssertionError(f"{late}\n{self.output()}") from None
        found = self._next_of(size)
        assert found is not None
        self.last_seen = found.number
        return found

    def wait_until_trains(self, size: int, timeout_s: float = _PATIENCE_S) -> None:
        """Until the newest round has that size, goes on, and all its ranks have stepped."""

        def trains() -> bool:
            last = self.rounds()[-1:]
            return bool(last) and last[0].end is None and self._trains(last[0], size)

        wait_until(trains, timeout_s, f"a world of {size} trains")
        self.last_seen = self.rounds()[-1].number

    def _next_of(self, size: int) -> RoundSnapshot | None:
        newer = (one for one in self.rounds() if one.number > self.last_seen)
        return next((one for one in newer if self._trains(one, size)), None)

    def _trains(self, one: RoundSnapshot, size: int) -> bool:
        return len(one.members) == size and self._has_stepped(one)

    def _has_stepped(self, one: RoundSnapshot) -> bool:
        return all(self._noted(one.number, rank).exists() for rank in range(len(one.members)))

    def _noted(self, number: int, rank: int) -> Path:
        return self.checkpoints / "rounds" / f"{number}.{rank}"

    def element(self, index: int) -> dict[str, str]:
        return self.sandbox.job(f"{self.array}_{index}")

    def running(self) -> list[int]:
        """The elements that have a node."""
        return [index for index in range(self.size) if self.element(index)["JobState"] == "RUNNING"]

    def states(self) -> list[str]:
        """The state of each element that Slurm shows."""
        shown = self.sandbox.run(
            ["squeue", "-h", "-r", "-t", "all", "-o", "%T", "-j", self.array], check=True
        )
        return shown.stdout.split()

    def wait_until_runs(self, index: int) -> None:
        """Until an element that was requeued has a node again.

        Not hurried by `StartTime=now`: the end of the start before may still be on its way to Slurm, and
        would count for the new one, which has the same job id.
        """
        self.sandbox.wait_for_state(f"{self.array}_{index}", "RUNNING", timeout_s=_PATIENCE_S)

    def starts(self) -> list[int]:
        """How often Slurm has started each element again."""
        return [self.restarts(index) for index in range(self.size)]

    def lose(self, *elements: int) -> None:
        """Preempt elements at the same moment; returns when Slurm has taken all of them back."""
        before = self.starts()
        for index in elements:
            self.sandbox.preempt(f"{self.array}_{index}", seconds=2)
        for index in elements:
            self.wait_for_restart(index, before[index] + 1)

    @contextmanager
    def without(self, element: int) -> Iterator[None]:
        """An element is preempted, and cannot come back to its node before the end of the block."""
        before = self.restarts(element)
        with nodes_taken(self.sandbox, f"{self.array}_{element}"):
            self.wait_for_restart(element, before + 1)
            yield

    def hold(self, index: int) -> None:
        """An element that waits goes on waiting, whatever becomes free."""
        self.sandbox.run(["scontrol", "hold", f"{self.array}_{index}"], check=True)

    def restarts(self, index: int) -> int:
        """How often Slurm has taken an element back."""
        return int(self.element(index)["Restarts"])

    def wait_for_restart(self, index: int, number: int = 1) -> None:
        """Until Slurm has taken an element back so often."""
        self.bench.wait_for_restart(f"{self.array}_{index}", number)

    def join(self, *options: str) -> str:
        """Submit a job that joins the run; its number."""
        told = self.type("join", str(self.bench.run_dir(self.array)), *options, check=True).stdout
        return str(json.loads(told)["job"]) if "--json" in options else told.split()[-1]

    def type(self, *words: str, check: bool = False) -> subprocess.CompletedProcess[str]:
        """What `hpc-elastic` answers to these words of the ordinary user."""
        command = [sys.executable, "-m", "hpc_elastic", *words]
        return self.sandbox.run(command, cwd=self.bench.folder, env=self.bench.variables, check=check)

    def let_end(self) -> None:
        """Let the training come to its end."""
        (self.checkpoints / "enough").touch()

    def finish(self) -> None:
        """Let the training come to its end, and wait until every element has ended."""
        self.let_end()
        for index in range(self.size):
            self.sandbox.wait_for_state(f"{self.array}_{index}", ENDED, timeout_s=_PATIENCE_S)

    def steps(self) -> list[tuple[int, int]]:
        """The first and the last step of each round that was stopped; all its ranks took the same.

        Rounds that were stopped before all ranks had stepped are left out: nobody has saved there.
        """
        found = []
        for one in filter(self._has_stepped, self.rounds()[:-1]):
            taken = [
                json.loads(self._noted(one.number, rank).read_text()) for rank in range(len(one.members))
            ]
            assert all(each == taken[0] for each in taken), f"round {one.number}: {taken}"
            found.append((taken[0]["first"], taken[0]["last"]))
        return found

    def gaps(self) -> list[tuple[int, int]]:
        """Where a round does not begin at the step after the last one of the round before."""
        steps = self.steps()
        last = json.loads(self._noted(self.rounds()[-1].number, 0).read_text())
        steps.append((last["first"], last["last"]))
        return [(last, first) for (_, last), (first, _) in pairwise(steps) if first != last + 1]

    def output(self) -> str:
        return "\n".join(path.read_text() for path in sorted(self.bench.folder.glob("*.out")))
