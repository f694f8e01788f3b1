"""Signals once, twice, three and twenty times, at random: no orphan, one report, the right status."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hpc_elastic.rendezvous.record import Outcome
from hpc_elastic.status import snapshot
from tests.integration.agent import signal_trials
from tests.integration.agent.agents import Agents, agents_in
from tests.integration.agent.signal_trials import DEAF, NUMBERS, SAVER, WORKERS, Trial

TRIALS = 20  # benchmarks/signals.py makes 200
FIRST_SEED = 1
# A minute's grace of which a save takes three quarters, scaled; a machine may stand still for some seconds.
GRACE_S, SAVE_S = 32.0, 20.0
DEAF_GRACE_S = 8.0


@pytest.fixture
def agents(tmp_path: Path) -> Iterator[Agents]:
    with agents_in(tmp_path) as made:
        yield made


def test_signals_at_random_leave_no_orphan_and_one_report(tmp_path: Path) -> None:
    trials = [Trial.of(seed) for seed in range(FIRST_SEED, FIRST_SEED + TRIALS)]
    assert {len(trial.signals) for trial in trials} == set(NUMBERS)
    assert {trial.worker.name for trial in trials} == {worker.name for worker in WORKERS}

    assert signal_trials.run(trials, tmp_path) == []


def test_who_saves_for_most_of_the_grace_is_let_to(agents: Agents) -> None:
    agents.start(0, "--shutdown-timeout", str(GRACE_S), agents.script(SAVER), str(SAVE_S))
    agents.wait_for_line("started", 0, 1)

    agents.signal("n0", signal.SIGTERM)

    assert agents.status("n0") == 80
    assert (agents.run_dir / "checkpoints" / "whole").exists()


def test_who_ignores_everything_is_killed_in_time_for_the_report(agents: Agents) -> None:
    agents.start(0, "--shutdown-timeout", str(DEAF_GRACE_S), agents.script(DEAF))
    agents.wait_for_line("started", 0, 1)

    began_s = time.monotonic()
    agents.signal("n0", signal.SIGTERM)

    assert agents.status("n0") == 81
    # Killed no later than that, with a tenth of the grace to spare; the rest is for a busy machine.
    assert DEAF_GRACE_S / 2 < time.monotonic() - began_s < DEAF_GRACE_S + 20
    (left,) = snapshot.read(agents.run_dir).presences
    assert left.outcome is Outcome.UNSAVED
    assert left.reason in agents.console("n0")
