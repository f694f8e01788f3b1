"""The benchmark of agents, small: its parts run, an idle agent is small, and it tells of missed goals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.agent import as_json, missed_goals
from benchmarks.agent_parts import idle, restarts
from benchmarks.launched import OURS, TORCHRUN

pytestmark = pytest.mark.alone

IDLE_S = 3.0
LOOKS = 2
# A tick of the clock is 10 ms, and what is shared with others counts less: the goals are 0.3 % and 45 MiB.
MOST_OF_A_CORE = 0.03
MOST_MIB = 60.0


def test_an_idle_agent_is_small_and_quiet(tmp_path: Path) -> None:
    looks = [idle([OURS], tmp_path / str(look), IDLE_S) for look in range(LOOKS)]

    assert [list(found) for found in looks] == [[OURS.name]] * LOOKS
    # Whatever else the machine does only ever adds: the best look counts.
    assert min(max(agent.core_share for agent in found[OURS.name]) for found in looks) < MOST_OF_A_CORE
    assert 5 < min(max(agent.pss_mib for agent in found[OURS.name]) for found in looks) < MOST_MIB


def test_workers_that_fail_are_replaced_on_all_nodes_and_all_end(tmp_path: Path) -> None:
    found = restarts(OURS, tmp_path / "two", nodes=2, repetitions=2)

    assert len(found.own_s) == 2
    assert all(0 < own_s <= all_s for own_s, all_s in zip(found.own_s, found.all_s, strict=True))
    assert 0 < found.stop_s < 20


def test_it_tells_what_is_slower_bigger_or_busier_than_it_should_be() -> None:
    good: dict[str, Any] = {
        "restart": {
            OURS.name: {"1": {"own_s": [0.1]}, "2": {"own_s": [0.1]}},
            TORCHRUN.name: {"1": {"own_s": [0.1]}, "2": {"own_s": [0.6]}},
        },
        "members": {OURS.name: {"loss_s": 16.0, "loss_of_a_stopped_one_s": 15.0}},
        "crowd": {OURS.name: [1.0], TORCHRUN.name: [6.0]},
        "idle": {OURS.name: [{"core_share": 0.001, "pss_mib": 20.0}]},
    }
    bad: dict[str, Any] = {
        "restart": {**good["restart"], OURS.name: {"1": {"own_s": [0.2]}, "2": {"own_s": [0.2]}}},
        "members": {OURS.name: {"loss_s": None, "loss_of_a_stopped_one_s": 18.0}},
        "crowd": {OURS.name: [2.0], TORCHRUN.name: [6.0]},
        "idle": {OURS.name: [{"core_share": 0.01, "pss_mib": 50.0}]},
    }

    assert missed_goals(good) == []
    assert len(missed_goals(bad)) == 7
    assert as_json(good)["restart_ratios"] == {"1": 1.0, "2": 0.1667}


def test_without_torchrun_beside_it_only_what_is_ours_is_judged() -> None:
    alone: dict[str, Any] = {"restart": {OURS.name: {"2": {"own_s": [9.0]}}}, "crowd": {OURS.name: [9.0]}}

    assert missed_goals(alone) == []
    assert as_json(alone)["crowd_ratio"] is None
