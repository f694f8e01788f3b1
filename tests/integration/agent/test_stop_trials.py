"""Sixteen ranks on four nodes that step at random: one node is told, and all stop at the same step."""

from __future__ import annotations

from pathlib import Path

from tests.integration.agent import stop_trials
from tests.integration.agent.stop_trials import Trial

TRIALS = 5
LONGEST_STEP_S = 0.2


def test_all_ranks_stop_at_the_same_step_whichever_node_is_told_and_when(tmp_path: Path) -> None:
    trials = [Trial.of(seed, LONGEST_STEP_S) for seed in range(1, TRIALS + 1)]

    stops = stop_trials.run(trials, tmp_path, at_once=TRIALS)

    assert [fault for stop in stops for fault in stop.faults()] == []
    assert len({stop.trial.told for stop in stops}) > 1
