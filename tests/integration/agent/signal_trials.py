"""Trials of signals at random: what an agent is sent, and what has to become of it and of its workers."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hpc_elastic.rendezvous.record import NodeState
from hpc_elastic.status import snapshot
from tests.integration.agent.agents import PLAIN, STEPPER, Agents, agents_in
from tests.waiting import wait_until

AT_ONCE: Final = 4
NUMBERS: Final = (1, 2, 3, 20)
_GAPS_S: Final = (0.002, 0.02, 0.2)
_BEGIN_WITHIN_S: Final = 120.0
_NOTICES: Final = (signal.SIGUSR1, signal.SIGUSR2)
_ORDERS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
_REPORTS: Final = ("saved at step ", "saved and left ", "stopped (")

# Saves for a long time, and hears of nothing else meanwhile.
SAVER: Final = """
import pathlib, sys, time
from hpc_elastic import worker

ctx = worker.context()
print("started", flush=True)
step = 0
while not ctx.should_stop(step):
    step += 1
    time.sleep(0.01)
time.sleep(float(sys.argv[1]))
pathlib.Path(ctx.checkpoint_dir, "whole").write_text(str(step))
ctx.saved(step)
ctx.leave()
"""

DEAF: Final = """
import signal, time
for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
    signal.signal(signum, signal.SIG_IGN)
print("started", flush=True)
while True:
    time.sleep(0.05)
"""


@dataclass(frozen=True)
class Worker:
    """A program, what it is given, the signals that may be sent to its agent, and the agent's status then.

    `grace_s` is how long it may take to save: only who never does is to use it up.
    """

    name: str
    text: str
    words: tuple[str, ...]
    first_line: str
    signals: tuple[signal.Signals, ...]
    status: int
    grace_s: int = 60


WORKERS: Final = (
    Worker("saves at the agreed step", STEPPER, (), "step 3", (*_NOTICES, *_ORDERS), 80),
    Worker("ends with 0 on TERM", PLAIN, ("0",), "started", (*_NOTICES, *_ORDERS), 80),
    Worker("ends with 7 on TERM", PLAIN, ("7",), "started", (*_NOTICES, *_ORDERS), 81),
    Worker("hears nothing", DEAF, (), "started", _ORDERS, 81, grace_s=3),  # a notice would give it a minute
)


@dataclass(frozen=True)
class Trial:
    """Which signals the agent of a worker gets, each so many seconds after the worker has begun."""

    seed: int
    worker: Worker
    signals: tuple[tuple[float, signal.Signals], ...]

    @classmethod
    def of(cls, seed: int) -> Trial:
        """The same for the same seed."""
        chance = random.Random(seed)
        worker = chance.choice(WORKERS)
        longest_s, at_s, signals = chance.choice(_GAPS_S), 0.0, []
        for _ in range(chance.choice(NUMBERS)):
            at_s += chance.uniform(0.0, longest_s)
            signals.append((at_s, chance.choice(worker.signals)))
        return cls(seed, worker, tuple(signals))

    def __str__(self) -> str:
        sent = " ".join(f"{signum.name}@{at_s:.3f}" for at_s, signum in self.signals)
        return f"seed {self.seed}, a worker that {self.worker.name}: {sent}"


def run(trials: Sequence[Trial], folder: Path) -> list[str]:
    """Run them, a few at a time; what went wrong in which."""
    wrong: list[str] = []
    for first in range(0, len(trials), AT_ONCE):
        wrong += _run_together(trials[first : first + AT_ONCE], folder)
    return wrong


def _run_together(trials: Sequence[Trial], folder: Path) -> list[str]:
    with ExitStack() as stack:
        running = []
        for trial in trials:
            place = folder / f"seed-{trial.seed}"
            place.mkdir()
            agents = stack.enter_context(agents_in(place))
            script = agents.script(trial.worker.text)
            agents.start(0, "--shutdown-timeout", str(trial.worker.grace_s), script, *trial.worker.words)
            running.append((trial, agents))
        for trial, agents in running:
            _wait_until_it_runs(trial, agents)
        _send_all(running)
        return [f"{trial}: {what}" for trial, agents in running for what in _faults(trial, agents)]


def _wait_until_it_runs(trial: Trial, agents: Agents) -> None:
    line = trial.worker.first_line
    wait_until(lambda: line in agents.output(0, 1), _BEGIN_WITHIN_S, f"{line!r} of {trial}")


def _send_all(running: Sequence[tuple[Trial, Agents]]) -> None:
    began_s = time.monotonic()
    due = sorted((at_s, n) for n, (trial, _) in enumerate(running) for at_s, _ in trial.signals)
    left = [list(trial.signals) for trial, _ in running]
    for at_s, number in due:
        _, signum = left[number].pop(0)
        _pause_until(began_s + at_s)
        running[number][1].signal("n0", signum)


def _pause_until(at_s: float) -> None:
    left_s = at_s - time.monotonic()
    if left_s > 0:
        signal.sigtimedwait((), left_s)


def _faults(trial: Trial, agents: Agents) -> Iterator[str]:
    status = agents.status("n0")
    if status != trial.worker.status:
        yield f"status {status} and not {trial.worker.status}: {agents.console('n0')[-1000:]}"
    agents.wait_until_nothing_is_left()
    reports = [line for line in agents.console("n0").splitlines() if any(text in line for text in _REPORTS)]
    if len(reports) != 1:
        yield f"{len(reports)} reports: {reports}"
    record = snapshot.read(agents.run_dir)
    if [one.state for one in record.presences] != [NodeState.LEFT]:
        yield f"the record has not one node that has left: {record.presences}"
    attempt = record.last_attempt
    if attempt is None or attempt.notice is None:
        yield "the record has no notice"
