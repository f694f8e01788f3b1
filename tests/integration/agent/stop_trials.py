"""Trials of the agreed stop: many ranks of real agents step at random, and one node alone gets a notice."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.integration.agent.agents import Agents, agents_in
from tests.waiting import wait_until

NODES: Final = 4
SLOTS: Final = 4
RANKS: Final = NODES * SLOTS
_BEGIN_WITHIN_S: Final = 200.0
_SAVED: Final = 80
# Many trials at once starve each other for seconds: nobody is to be taken for dead because of that.
_PATIENT: Final = ("--rdzv-conf", "heartbeat=5,last_call=60,join_window=0.1")

# Ranks that wait for nobody: they drift apart, which ranks with collectives cannot.
_STEPPER: Final = """
import random, sys, time
from hpc_elastic import worker

ctx = worker.context()
chance = random.Random(f"{sys.argv[1]} {ctx.rank}")
longest_s = float(sys.argv[2])
step = 0
print("started", flush=True)
while True:
    time.sleep(chance.uniform(0.0, longest_s))
    if ctx.should_stop(step):
        print(f"stopped {step}", flush=True)
        ctx.saved(step)
        ctx.leave()
    ctx.progress(step)
    step += 1
"""


@dataclass(frozen=True)
class Trial:
    """Steps of at most `longest_s`; node `told` gets the notice `at_s` after all ranks have begun."""

    seed: int
    longest_s: float
    told: int
    at_s: float

    @classmethod
    def of(cls, seed: int, longest_s: float) -> Trial:
        """The same for the same seed."""
        chance = random.Random(seed)
        return cls(seed, longest_s, chance.randrange(NODES), chance.uniform(0.0, 2 * longest_s))


@dataclass(frozen=True)
class Stop:
    """Where each rank stopped, how each agent ended, and how long it took from notice to last exit."""

    trial: Trial
    steps: tuple[int, ...]
    statuses: tuple[int, ...]
    took_s: float

    def faults(self) -> list[str]:
        """What is not as promised."""
        found = []
        if len(self.steps) != RANKS or len(set(self.steps)) != 1:
            found.append(f"seed {self.trial.seed}: the ranks stopped at {self.steps}")
        if set(self.statuses) != {_SAVED}:
            found.append(f"seed {self.trial.seed}: the agents ended with {self.statuses}")
        return found


def run(trials: Sequence[Trial], folder: Path, *, at_once: int) -> list[Stop]:
    """Run them, some at a time; what became of each."""
    return [
        stop
        for first in range(0, len(trials), at_once)
        for stop in _run_together(trials[first : first + at_once], folder)
    ]


def _run_together(trials: Sequence[Trial], folder: Path) -> list[Stop]:
    with ExitStack() as stack:
        running = []
        for trial in trials:
            place = folder / f"stop-{trial.seed}"
            place.mkdir()
            agents = stack.enter_context(agents_in(place))
            _start(trial, agents)
            running.append((trial, agents))
        told_at_s = _tell_all(running)
        return [_stop(trial, agents, at_s) for (trial, agents), at_s in zip(running, told_at_s, strict=True)]


def _start(trial: Trial, agents: Agents) -> None:
    script = agents.script(_STEPPER)
    words = (*_PATIENT, "--nproc-per-node", str(SLOTS), script, str(trial.seed), str(trial.longest_s))
    for index in range(NODES):
        agents.start(index, *words, nodes=str(NODES), count=NODES)


def _tell_all(running: Sequence[tuple[Trial, Agents]]) -> list[float]:
    """Give each its notice in its time after its ranks have begun; when that was."""
    began_at_s: dict[int, float] = {}
    told_at_s: dict[int, float] = {}

    def has_told_all() -> bool:
        now_s = time.monotonic()
        for trial, agents in running:
            if trial.seed not in began_at_s:
                if len(_lines(agents, "started")) == RANKS:
                    began_at_s[trial.seed] = now_s
            elif trial.seed not in told_at_s and now_s >= began_at_s[trial.seed] + trial.at_s:
                agents.signal(f"n{trial.told}", signal.SIGUSR2)
                told_at_s[trial.seed] = now_s
        return len(told_at_s) == len(running)

    try:
        wait_until(has_told_all, _BEGIN_WITHIN_S, f"all {RANKS} ranks of each trial have begun")
    except AssertionError as late:
        slow = [agents for trial, agents in running if trial.seed not in began_at_s]
        said = "\n".join(agents.console(name) for agents in slow for name in agents.processes)
        raise AssertionError(f"{late}\n{said}") from None
    return [told_at_s[trial.seed] for trial, _ in running]


def _stop(trial: Trial, agents: Agents, told_at_s: float) -> Stop:
    statuses = agents.statuses()
    took_s = time.monotonic() - told_at_s
    steps = tuple(int(line.split()[1]) for line in _lines(agents, "stopped"))
    return Stop(trial, steps, tuple(statuses.values()), took_s)


def _lines(agents: Agents, start: str) -> list[str]:
    """The lines of all ranks in the first round that begin so."""
    outputs = (agents.output(rank, 1) for rank in range(RANKS))
    return [line for lines in outputs for line in lines if line.startswith(start)]
