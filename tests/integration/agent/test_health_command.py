"""The health command: asked before each join, bounded, and a node on which it fails is kept out."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.integration.agent.agents import PATIENCE_S, Agents, agents_in
from tests.waiting import wait_until

FAILS_ON_N2: Final = "case $HPC_ELASTIC_NODE in *n2*) echo GPU 3 fell off the bus; exit 3;; esac"
FAILS_ONCE: Final = "import os; raise SystemExit(7 if os.environ['HPC_ELASTIC_ROUND'] == '1' else 0)"


@pytest.fixture
def agents(tmp_path: Path) -> Iterator[Agents]:
    with agents_in(tmp_path) as made:
        yield made


def said_last(agents: Agents, name: str) -> str:
    return agents.console(name).splitlines()[-1]


def test_a_node_that_is_not_well_is_kept_out_with_the_reason_and_the_others_go_on(agents: Agents) -> None:
    script = agents.script("import os; print('world', os.environ['WORLD_SIZE'])")
    for index in range(3):
        agents.start(index, "--health-command", FAILS_ON_N2, script, nodes="2:3", count=3)

    assert agents.statuses() == {"n0": 0, "n1": 0, "n2": 83}
    assert agents.output(0, 1) == ["world 2"]
    log = agents.run_dir / "health" / "1" / "n2.log"
    assert log.read_text() == "GPU 3 fell off the bus\n"
    why = f"health command `{FAILS_ON_N2}` exited with status 3: GPU 3 fell off the bus; all of its output"
    assert f"this node is kept out of the run: {why} is in {log}; have it checked" in said_last(agents, "n2")


def test_it_is_asked_again_before_the_round_after_a_failure(agents: Agents) -> None:
    script = agents.script(FAILS_ONCE)
    twice = "echo asked; test $(grep -c asked $HPC_ELASTIC_RUN_DIR/health/1/*.log) -lt 2"

    name = agents.start(0, "--health-command", twice, script)

    assert agents.status(name) == 83
    assert "rank 0 failed: exited with status 7" in agents.console(name)
    assert (agents.run_dir / "health" / "1" / "n0.log").read_text() == "asked\nasked\n"


def test_one_that_is_content_each_time_lets_the_run_come_to_its_end(agents: Agents) -> None:
    name = agents.start(0, "--health-command", "echo asked", agents.script(FAILS_ONCE))

    assert agents.status(name) == 0, agents.console(name)
    assert (agents.run_dir / "health" / "1" / "n0.log").read_text() == "asked\nasked\n"


def test_one_that_hangs_is_a_failure_and_ends_with_all_that_it_started(agents: Agents) -> None:
    hangs = "setsid sleep 600 & trap '' TERM; echo begun; sleep 600; sleep 600"

    # Time enough to say something before it hangs, also on a machine that stands still for a moment.
    name = agents.start(0, "--health-command", hangs, "--health-timeout", "8", agents.script(""))

    assert agents.status(name) == 83
    assert f"health command `{hangs}` did not end within 8 s: begun" in said_last(agents, name)


def test_what_it_leaves_in_the_background_ends_before_the_round_begins(agents: Agents) -> None:
    script = agents.script("import os; print(os.path.exists(f'/proc/{open(\"pid\").read().strip()}'))")

    name = agents.start(0, "--health-command", "setsid sleep 600 & echo $! > pid", script)

    assert agents.status(name) == 0, agents.console(name)
    assert agents.output(0, 1) == ["False"]


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGKILL])
def test_an_agent_that_ends_while_it_asks_leaves_nothing(agents: Agents, signum: signal.Signals) -> None:
    name = agents.start(0, "--health-command", "sleep 600 & echo begun; wait", agents.script(""))
    log = agents.run_dir / "health" / "1" / "n0.log"
    wait_until(lambda: log.exists() and log.read_text() == "begun\n", PATIENCE_S, "it is asked")

    os.kill(agents.processes[name].pid, signum)

    assert agents.status(name) == (80 if signum == signal.SIGTERM else -signum)
    agents.wait_until_nothing_is_left()


@pytest.mark.parametrize(
    "words", [("--health-command", " "), ("--health-command", "true", "--health-timeout", "0")]
)
def test_one_that_cannot_be_meant_is_refused(agents: Agents, words: tuple[str, ...]) -> None:
    assert agents.status(agents.start(0, *words, agents.script(""))) == 64
