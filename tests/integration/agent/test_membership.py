"""Nodes are lost and come; the others go on, and nobody's processes stay."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.agent.agents import STEPPER, Agents, agents_in


@pytest.fixture
def agents(tmp_path: Path) -> Iterator[Agents]:
    with agents_in(tmp_path) as made:
        yield made


def test_the_others_form_a_new_round_when_an_agent_is_killed(agents: Agents) -> None:
    script = agents.script(STEPPER)
    for index in range(3):
        agents.start(index, script, nodes="2:3", count=3)
    for rank in range(3):
        agents.wait_for_line("step 5", rank, 1)

    agents.signal("n1", signal.SIGKILL)

    agents.wait_for_world(2)
    agents.signal("n0", signal.SIGTERM)
    assert agents.statuses() == {"n0": 80, "n1": -signal.SIGKILL, "n2": 80}


def test_an_agent_that_stood_still_is_replaced_and_comes_back(agents: Agents) -> None:
    script = agents.script(STEPPER)
    for index in range(3):
        agents.start(index, script, nodes="2:3", count=3)
    for rank in range(3):
        agents.wait_for_line("step 5", rank, 1)

    agents.signal("n1", signal.SIGSTOP)
    agents.wait_for_world(2)
    agents.signal("n1", signal.SIGCONT)

    agents.wait_for_world(3)
    agents.signal("n0", signal.SIGTERM)
    assert agents.statuses() == {"n0": 80, "n1": 80, "n2": 80}


def test_the_workers_of_a_killed_agent_end_with_it(agents: Agents) -> None:
    grandchild = "import subprocess, time; subprocess.Popen(['sleep', '600'], start_new_session=True)\n"
    script = agents.script(grandchild + "print('started', flush=True)\ntime.sleep(600)")
    agents.start(0, script)
    agents.wait_for_line("started", 0, 1)
    assert len(agents.left_behind()) >= 3

    agents.signal("n0", signal.SIGKILL)

    agents.wait_until_nothing_is_left()  # long before any of them would have ended by itself


def test_newcomers_are_let_in_after_a_save_at_one_step(agents: Agents) -> None:
    script = agents.script(STEPPER)
    agents.start(0, script, nodes="1:3", count=1)
    agents.wait_for_line("step 20", 0, 1)

    agents.start(1, script, nodes="1:3", count=1)
    agents.start(2, script, nodes="1:3", count=1)
    agents.wait_for_world(3)

    agents.signal("n2", signal.SIGTERM)
    assert agents.statuses() == {"n0": 80, "n1": 80, "n2": 80}
    assert agents.output(0, 1)[-1].startswith("saved ")
    assert "restarts" not in agents.console("n0").partition("run directory")[2]


def test_helpers_of_finished_workers_do_not_outlive_the_agent(agents: Agents) -> None:
    script = agents.script(
        "import os, subprocess; subprocess.Popen(['sleep', '600'], start_new_session=True)"
    )

    agents.start(0, script)

    assert agents.status("n0") == 0
