"""Agents form rounds, restart after failures within the budget, and end with what the workers ended with."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.agent.agents import PATIENCE_S, PLAIN, STEPPER, Agents, agents_in

FAILS_TWICE = """
import os, pathlib, sys
mark = pathlib.Path(sys.argv[1])
failures = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
if os.environ["RANK"] == "1" and failures < int(sys.argv[2]):
    raise RuntimeError(f"failure {failures}")
if os.environ["RANK"] == "1":
    mark.touch()
print("restarts", failures, flush=True)
import time
while not mark.exists():
    time.sleep(0.02)
"""


@pytest.fixture
def agents(tmp_path: Path) -> Iterator[Agents]:
    with agents_in(tmp_path) as made:
        yield made


def test_one_node_runs_two_workers_to_the_end(agents: Agents) -> None:
    agents.start(0, "--nproc-per-node", "2", agents.script(STEPPER), "20")

    assert agents.statuses() == {"n0": 0}
    assert agents.output(0, 1)[-1] == agents.output(1, 1)[-1] == "done"
    assert "all ranks are done" in agents.console("n0")
    assert "[n0 0] step 19" in agents.console("n0")
    assert "[n0 1]" not in agents.console("n0")


def test_three_nodes_agree_on_ranks_in_node_order(agents: Agents) -> None:
    script = agents.script("import os; print(os.environ['HPC_ELASTIC_NODE'], os.environ['WORLD_SIZE'])")

    for index in (2, 0, 1):
        agents.start(index, script, nodes="3", count=3)

    assert agents.statuses() == {"n0": 0, "n1": 0, "n2": 0}
    names = [agents.output(rank, 1)[0] for rank in range(3)]
    assert [f"-n{rank}-" in name and name.endswith(" 3") for rank, name in enumerate(names)] == [True] * 3


def test_a_failed_worker_restarts_the_whole_group(agents: Agents) -> None:
    script = agents.script(FAILS_TWICE)

    for index in (0, 1):
        agents.start(index, script, agents.folder / "mark", "2", nodes="2", count=2)

    assert agents.statuses() == {"n0": 0, "n1": 0}
    assert agents.output(0, 3) == agents.output(1, 3) == ["restarts 2"]
    assert "RuntimeError: failure 0" in agents.console("n1")


def test_a_spent_budget_ends_every_agent_with_the_status_of_the_failed_worker(agents: Agents) -> None:
    script = agents.script("import os, time\nif os.environ['RANK'] == '1': os._exit(42)\ntime.sleep(600)")

    for index in (0, 1):
        agents.start(index, "--max-restarts", "1", script, nodes="2", count=2)

    assert agents.statuses() == {"n0": 42, "n1": 42}
    assert "exit code 42" in agents.console("n1")
    assert not agents.output(0, 3)


def test_a_killed_worker_is_reported_as_128_plus_the_signal(agents: Agents) -> None:
    script = agents.script("import os, signal; os.kill(os.getpid(), signal.SIGKILL)")

    agents.start(0, "--max-restarts", "0", script)

    assert agents.status("n0") == 128 + signal.SIGKILL


def test_a_worker_that_somebody_terminates_is_restarted(agents: Agents) -> None:
    first_life = "os.environ['TORCHELASTIC_RESTART_COUNT'] == '0'"
    script = agents.script(f"import os, signal\nif {first_life}: os.kill(os.getpid(), signal.SIGTERM)")

    agents.start(0, script)

    assert agents.status("n0") == 0
    assert "SIGTERM" in agents.console("n0")


def test_a_needless_new_start_of_a_finished_run_ends_at_once(agents: Agents) -> None:
    script = agents.script("print('ran')")
    agents.start(0, script)
    assert agents.status("n0") == 0

    agents.start(0, script, restart=1)

    assert agents.status("n0") == 0
    assert agents.output(0, 2, attempt=2) == []
    assert "the run is done already" in agents.console("n0")


def test_a_new_attempt_follows_a_failed_one(agents: Agents) -> None:
    script = agents.script("import os, sys; sys.exit(0 if os.environ['HPC_ELASTIC_ATTEMPT'] == '2' else 3)")
    agents.start(0, "--max-restarts", "0", script)
    assert agents.status("n0") == 3

    agents.start(0, "--max-restarts", "0", script, restart=1)

    assert agents.status("n0") == 0


def test_a_second_agent_on_a_node_is_refused(agents: Agents) -> None:
    script = agents.script(PLAIN)
    first = agents.start(0, script, "0")
    agents.wait_for_line("started", 0, 1)
    process = agents.processes.pop(first)

    second = agents.start(0, script, "0")

    assert agents.status(second) == 64
    assert "--ntasks-per-node=1" in agents.console(second)
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE_S) == 80
