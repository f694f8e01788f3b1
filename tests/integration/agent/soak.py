"""Agents on loopback that are killed at random, with workers that are; and what two that stay look like."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Final

from hpc_elastic.status import snapshot
from tests.integration.agent.agents import Agents
from tests.waiting import wait_until

TIMES: Final = "heartbeat=1,last_call=0.5,join_window=0.1,join_timeout=300"
# Nothing of the policy on failures: that all these kills end the run is what it is for.
BOUNDLESS: Final = (
    *("--max-restarts", "1000000", "--restart-backoff", "0"),
    *("--same-failures", "0", "--node-failures", "0"),
)
STAYING: Final = 2
MOST_DOWN: Final = 3
_CALM_S: Final = 180.0  # on a machine that does other things as well
_DOWN_S: Final = (1.0, 6.0)
_BETWEEN_S: Final = (0.3, 4.0)
_AGENT_SHARE: Final = 0.35
_LEAST: Final = 3  # kills and rounds, however slow the machine
_SAMPLE_EVERY_S: Final = 5.0
# Each holds something for moments: what it keeps is the least of some looks. What a round leaves
# to do is done after a while: in the end there may be so many calm moments.
_CALM_LOOKS: Final = 10
_CALM_LOOK_EVERY_S: Final = 0.3
_CALM_MOMENTS: Final = 10
_PAGE_MIB: Final = os.sysconf("SC_PAGE_SIZE") / 2**20

WORKER: Final = """
import pathlib, sys, time
from hpc_elastic import worker

ctx = worker.context()
finish, saved = pathlib.Path(sys.argv[1]), pathlib.Path(ctx.checkpoint_dir) / f"{ctx.rank}.step"
step = int(saved.read_text()) + 1 if saved.exists() and saved.read_text() else 0
print(f"world {ctx.world_size} round {ctx.round}", flush=True)
while not finish.exists():
    time.sleep(0.05)
    ctx.progress(step)
    if ctx.should_stop(step):
        saved.write_text(str(step))
        ctx.saved(step)
        ctx.leave()
    step += 1
"""


@dataclass(frozen=True)
class Sample:
    """One agent at one moment."""

    at_s: float
    descriptors: int
    threads: int
    memory_mib: float


@dataclass
class Soak:
    """`nodes` agents with `per_node` workers each. `run`, then `finish`; then ask what it was like."""

    agents: Agents
    nodes: int
    per_node: int
    chance: random.Random
    samples: dict[str, list[Sample]] = field(default_factory=dict)
    before: dict[str, Sample] = field(default_factory=dict)
    after: dict[str, Sample] = field(default_factory=dict)
    killed_agents: int = 0
    killed_workers: int = 0
    _down: dict[int, float] = field(default_factory=dict)

    def run(self, seconds: float, tell: Callable[[str], None]) -> None:
        """Start all, kill for so long, and wait until all are there again."""
        for index in range(self.nodes):
            self._start(index)
        self._wait_for_all()
        self.before = self._calm_moment()
        began_s = time.monotonic()
        next_sample_s = next_word_s = began_s
        while (now_s := time.monotonic()) < began_s + seconds or not self._has_seen_enough():
            self._bring_back(now_s)
            self._kill_one(now_s)
            if now_s >= next_sample_s:
                next_sample_s = now_s + _SAMPLE_EVERY_S
                self._sample()
            if now_s >= next_word_s:
                next_word_s = now_s + 60.0
                killed = f"{self.killed_workers} workers and {self.killed_agents} agents killed"
                tell(f"{now_s - began_s:5.0f} s: {killed}")
            self._pause(self.chance.uniform(*_BETWEEN_S))
        self._bring_back(float("inf"))
        self._wait_for_all()
        for _ in range(_CALM_MOMENTS):
            self.after = self._calm_moment()
            if not self._more_held():
                break

    def finish(self) -> dict[str, int]:
        """Let the workers end, and give the status of each agent."""
        (self.agents.folder / "finish").touch()
        return {name: self.agents.status(name) for name in self.agents.processes}

    @property
    def rounds(self) -> int:
        """How many there were."""
        return len(snapshot.read(self.agents.run_dir).rounds)

    def leaks(self, growth_mib: float) -> list[str]:
        """What one that stayed has more of at a calm moment in the end than at one in the beginning.

        Of memory it may have `growth_mib` more than when it had warmed up.
        """
        grown = {name: self.growth_mib(name) for name in self.samples}
        return self._more_held() + [
            f"{name}: memory has grown by {mib:.1f} MiB" for name, mib in grown.items() if mib > growth_mib
        ]

    def _more_held(self) -> list[str]:
        found = []
        for name, before in self.before.items():
            for what in ("descriptors", "threads"):
                if getattr(self.after[name], what) > getattr(before, what):
                    found.append(
                        f"{name}: {what} {getattr(before, what)} -> {getattr(self.after[name], what)}"
                    )
        return found

    def growth_mib(self, name: str) -> float:
        """How much more memory an agent holds in the last quarter of the time than in the second one.

        What is imported at a first failure, and what the allocator keeps for the next round, comes before.
        """
        sizes = [one.memory_mib for one in self.samples[name]]
        quarter = max(1, len(sizes) // 4)
        return round(median(sizes[-quarter:]) - median(sizes[quarter : 2 * quarter] or sizes[:1]), 2)

    def _has_seen_enough(self) -> bool:
        return self.killed_workers + self.killed_agents >= _LEAST and self.rounds >= _LEAST

    def _start(self, index: int) -> None:
        words = ("--nproc-per-node", str(self.per_node), "--rdzv-conf", TIMES, *BOUNDLESS)
        script = self.agents.folder / "worker.py"
        if not script.exists():
            self.agents.script(WORKER)
        finish = self.agents.folder / "finish"
        self.agents.start(index, *words, script, finish, nodes=f"1:{self.nodes}", count=self.nodes)

    def _wait_for_all(self) -> None:
        world = self.nodes * self.per_node

        def stands() -> bool:
            newest = max((int(path.name) for path in self.agents.run_dir.glob("logs/1/*")), default=0)
            begun = list(self.agents.run_dir.glob(f"logs/1/{newest}/*.out"))
            lines = [path.read_text() for path in begun]
            return lines == [f"world {world} round {newest}\n"] * world

        wait_until(stands, _CALM_S, f"a world of {world}")

    def _bring_back(self, now_s: float) -> None:
        for index in [index for index, back_s in self._down.items() if back_s <= now_s]:
            del self._down[index]
            self._start(index)

    def _kill_one(self, now_s: float) -> None:
        up = [index for index in range(self.nodes) if index not in self._down]
        mortal = [index for index in up if index >= STAYING]
        if len(self._down) < MOST_DOWN and mortal and self.chance.random() < _AGENT_SHARE:
            index = self.chance.choice(mortal)
            self.agents.signal(f"n{index}", signal.SIGKILL)
            self.agents.processes[f"n{index}"].wait()
            self._down[index] = now_s + self.chance.uniform(*_DOWN_S)
            self.killed_agents += 1
            return
        victims = workers_of(self.agents.processes[f"n{self.chance.choice(up)}"].pid)
        if victims:
            self._kill_worker(self.chance.choice(victims))

    def _kill_worker(self, pid: int) -> None:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            return  # it was being replaced
        self.killed_workers += 1

    def _sample(self) -> None:
        for name, one in self._look().items():
            self.samples.setdefault(name, []).append(one)

    def _look(self) -> dict[str, Sample]:
        names = [f"n{index}" for index in range(STAYING)]
        return {name: sample(self.agents.processes[name].pid) for name in names}

    def _calm_moment(self) -> dict[str, Sample]:
        """What each that stays keeps, once all are there: the least of some looks."""
        least: dict[str, Sample] = {}
        for _ in range(_CALM_LOOKS):
            self._pause(_CALM_LOOK_EVERY_S)
            for name, one in self._look().items():
                known = least.get(name, one)
                least[name] = replace(
                    one,
                    descriptors=min(known.descriptors, one.descriptors),
                    threads=min(known.threads, one.threads),
                )
        return least

    @staticmethod
    def _pause(seconds: float) -> None:
        signal.sigtimedwait((), seconds)


def sample(pid: int) -> Sample:
    """What a process holds now."""
    memory = int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE_MIB
    descriptors = len(list(Path(f"/proc/{pid}/fd").iterdir()))
    threads = len(list(Path(f"/proc/{pid}/task").iterdir()))
    return Sample(time.monotonic(), descriptors, threads, round(memory, 2))


def workers_of(agent: int) -> list[int]:
    """The living workers of an agent."""
    found = []
    for path in Path(f"/proc/{agent}/task").glob("*/children"):
        found += [int(word) for word in _text(path).split()]
    return [pid for pid in found if "\0LOCAL_RANK=" in _text(Path(f"/proc/{pid}/environ"))]


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""  # it has ended
