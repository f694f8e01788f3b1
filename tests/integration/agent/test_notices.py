"""A notice to one agent stops all at one step; nothing is lost, nothing is left."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.agent.agents import PATIENCE_S, PLAIN, STEPPER, Agents, agents_in
from tests.waiting import wait_until

STUBBORN = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("started", flush=True)
while True:
    time.sleep(0.05)
"""


@pytest.fixture
def agents(tmp_path: Path) -> Iterator[Agents]:
    with agents_in(tmp_path) as made:
        yield made


def saved_steps(agents: Agents, ranks: int, round_number: int = 1, attempt: int = 1) -> set[str]:
    return {agents.output(rank, round_number, attempt)[-1] for rank in range(ranks)}


def test_a_notice_to_one_of_three_agents_stops_all_ranks_at_one_step(agents: Agents) -> None:
    script = agents.script(STEPPER)
    for index in range(3):
        agents.start(index, "--nproc-per-node", "2", script, nodes="3", count=3)
    for rank in range(6):
        agents.wait_for_line("step 10", rank, 1)

    agents.signal("n1", signal.SIGUSR2)

    assert agents.statuses() == {"n0": 80, "n1": 80, "n2": 80}
    steps = saved_steps(agents, 6)
    assert len(steps) == 1
    assert steps.pop().startswith("saved ")
    assert "saved at step" in agents.console("n0")


def test_the_next_attempt_goes_on_where_the_preempted_one_stopped(agents: Agents) -> None:
    script = agents.script(STEPPER)
    for index in range(2):
        agents.start(index, script, nodes="2", count=2)
    agents.wait_for_line("step 10", 0, 1)
    agents.wait_for_line("step 10", 1, 1)
    agents.signal("n0", signal.SIGUSR2)
    assert agents.statuses() == {"n0": 80, "n1": 80}
    stopped = int(saved_steps(agents, 2).pop().split()[1])

    for index in range(2):
        agents.start(index, script, str(stopped + 100), nodes="2", count=2, restart=1)

    assert agents.statuses() == {"n0": 0, "n1": 0}
    assert agents.output(0, 2, attempt=2)[1] == f"step {stopped + 1}"


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT])
def test_an_order_to_end_lets_the_workers_save(agents: Agents, signum: signal.Signals) -> None:
    agents.start(0, agents.script(STEPPER))
    agents.wait_for_line("step 5", 0, 1)

    agents.signal("n0", signum)
    agents.signal("n0", signum)

    assert agents.status("n0") == 80
    assert agents.output(0, 1)[-1].startswith("saved ")


@pytest.mark.parametrize(("status", "expected"), [("0", 80), ("7", 81)])
def test_a_plain_script_has_saved_when_it_ends_with_0_after_our_signal(
    agents: Agents, status: str, expected: int
) -> None:
    agents.start(0, agents.script(PLAIN), status)
    agents.wait_for_line("started", 0, 1)

    agents.signal("n0", signal.SIGUSR1)

    assert agents.status("n0") == expected
    assert agents.output(0, 1)[-1] == "notice file there: True"


def test_workers_that_do_not_stop_are_killed_before_the_deadline(agents: Agents) -> None:
    agents.start(0, "--shutdown-timeout", "2", agents.script(STUBBORN))
    agents.wait_for_line("started", 0, 1)

    agents.signal("n0", signal.SIGTERM)

    assert agents.status("n0") == 81
    assert "rank 0 had not saved" in agents.console("n0")


def test_a_notice_while_nodes_are_missing_ends_the_wait(agents: Agents) -> None:
    agents.start(0, agents.script(STEPPER), nodes="2", count=2)
    wait_until(lambda: "attempt 1" in agents.console("n0"), PATIENCE_S, "the agent has started")

    agents.signal("n0", signal.SIGTERM)

    assert agents.status("n0") == 80
    assert "while no worker ran" in agents.console("n0")


def test_a_worker_that_fails_after_the_notice_is_no_failure_of_the_run(agents: Agents) -> None:
    script = agents.script(PLAIN)
    for index in range(2):
        agents.start(index, script, "3" if index else "0", nodes="2", count=2)
    agents.wait_for_line("started", 0, 1)
    agents.wait_for_line("started", 1, 1)

    agents.signal("n0", signal.SIGUSR2)

    assert agents.statuses() == {"n0": 80, "n1": 81}
