"""Signals at any time: heard once, acted on once, and a person's second Ctrl-C is final."""

from __future__ import annotations

import os
import random
import signal
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.integration.agent.agents import PATIENCE_S, PLAIN, STEPPER, Agents, agents_in
from tests.waiting import wait_until

STUBBORN = PLAIN.replace("    sys.exit(int(sys.argv[1]))\n", "    pass\n")
_STORM = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP, signal.SIGCONT)


@pytest.fixture
def agents(tmp_path: Path) -> Iterator[Agents]:
    with agents_in(tmp_path) as made:
        yield made


def test_a_hangup_that_was_ignored_at_the_start_stays_ignored(agents: Agents) -> None:
    agents.start(0, agents.script(STEPPER), "100", ignored=(signal.SIGHUP,))
    agents.wait_for_line("step 5", 0, 1)

    agents.signal("n0", signal.SIGHUP)

    assert agents.status("n0") == 0
    assert agents.output(0, 1)[-1] == "done"


def test_a_second_ctrl_c_at_a_terminal_ends_the_workers_at_once(agents: Agents) -> None:
    terminal, console = os.openpty()
    agents.start(0, "--shutdown-timeout", "600", agents.script(STUBBORN), "0", console=console)
    os.close(console)
    agents.wait_for_line("started", 0, 1)

    agents.signal("n0", signal.SIGINT)
    agents.wait_for_line("notice file there: True", 0, 1)
    threading.Event().wait(1.1)  # sooner it would be a repeat of the first
    agents.signal("n0", signal.SIGINT)

    assert agents.status("n0") == 81  # long before the ten minutes are over
    os.close(terminal)


@pytest.mark.parametrize("seed", range(6))
def test_a_storm_of_signals_ends_in_one_save(agents: Agents, seed: int) -> None:
    chance = random.Random(seed)
    for index in range(2):
        agents.start(index, agents.script(STEPPER), nodes="2", count=2)
    agents.wait_for_line("step 3", 0, 1)
    agents.wait_for_line("step 3", 1, 1)

    pause = threading.Event()
    for _ in range(20):
        agents.signal(f"n{chance.randrange(2)}", chance.choice(_STORM))
        pause.wait(chance.random() * 0.02)
    agents.signal("n0", signal.SIGTERM)

    assert agents.statuses() == {"n0": 80, "n1": 80}
    assert agents.output(0, 1)[-1] == agents.output(1, 1)[-1]
    for name in ("n0", "n1"):
        assert agents.console(name).count("saved at step") == 1


def test_a_signal_during_the_start_is_not_lost(agents: Agents) -> None:
    agents.start(0, agents.script(STEPPER), ignored=(signal.SIGUSR2,))

    def told_and_heard() -> bool:
        agents.signal("n0", signal.SIGUSR2)
        return "heard SIGUSR2" in agents.console("n0")

    wait_until(told_and_heard, PATIENCE_S, "the agent hears the signal")
    assert agents.status("n0") in (80, 81)


def test_in_a_pool_a_noticed_node_leaves_alone_and_the_other_goes_on(agents: Agents) -> None:
    script = agents.script(STEPPER)
    for index in range(2):
        own_job = {"HPC_ELASTIC_JOB_ID": f"pool-{index}"}
        agents.start(index, "--pool", script, nodes="1:2", environment=own_job)
    agents.wait_for_world(2)

    agents.signal("n1", signal.SIGUSR2)

    assert agents.status("n1") == 80
    agents.wait_for_world(1)
    agents.signal("n0", signal.SIGTERM)
    assert agents.status("n0") == 80


def test_a_console_that_takes_nothing_keeps_nobody_from_saving(agents: Agents) -> None:
    reader, console = os.pipe()
    os.set_blocking(console, False)
    with suppress(BlockingIOError):
        while True:
            os.write(console, b"." * 1024)
    os.set_blocking(console, True)
    agents.start(0, agents.script(STEPPER), console=console)
    os.close(console)
    agents.wait_for_line("step 3", 0, 1)

    agents.signal("n0", signal.SIGUSR2)

    assert agents.status("n0") == 80
    assert agents.output(0, 1)[-1].startswith("saved ")
    os.close(reader)
