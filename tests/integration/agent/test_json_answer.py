"""`hpc-elastic run --json`: standard output is one object, whatever the workers print, however it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.integration.agent.agents import PATIENCE_S, QUICK, STEPPER, Agents, agents_in
from tests.waiting import wait_until

_ROOT: Final = Path(__file__).resolve().parents[3]
LOUD: Final = """
import os, sys, time

print("stdout of a worker", flush=True)
print("stderr of a worker", file=sys.stderr, flush=True)
if os.environ["RANK"] == sys.argv[1]:
    raise ValueError("the loss is not a number")
time.sleep(600 if len(sys.argv) > 2 else 0)
"""
# Keeps standard output apart from the console that the other tests read.
APART: Final = ("sh", "-c", 'name=$1; shift; exec "$@" >"$name.json"', "sh")


@pytest.fixture
def agents(tmp_path: Path) -> Iterator[Agents]:
    with agents_in(tmp_path) as made:
        yield made


def told(agents: Agents, name: str) -> dict[str, Any]:
    """The one object on an agent's standard output."""
    (line,) = (agents.folder / f"{name}.json").read_text().splitlines()
    found: dict[str, Any] = json.loads(line)
    return found


def run(folder: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    """One agent by hand, to its end."""
    return subprocess.run(
        [sys.executable, "-m", "hpc_elastic", "run", "--json", *QUICK, *map(str, words)],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(_ROOT)},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def test_a_run_that_is_done_is_told_on_standard_output_and_what_workers_print_on_standard_error(
    agents: Agents,
) -> None:
    ended = run(agents.folder, "--standalone", "--run-dir", "run", agents.script(LOUD), "none")

    assert ended.returncode == 0, ended.stderr
    answer = json.loads(ended.stdout)
    assert (answer["status"], answer["outcome"], answer["root_cause"]) == (0, "done", None)
    assert (answer["run"], answer["directory"]) == ("run", str(agents.run_dir))
    assert "] stdout of a worker" in ended.stderr
    assert "] stderr of a worker" in ended.stderr


def test_every_agent_tells_the_same_root_cause_and_where_its_log_is(agents: Agents) -> None:
    script = agents.script(LOUD)
    for index in (1, 2):
        agents.start(
            index,
            "--json",
            "--max-restarts=0",
            script,
            "1",
            "and the other waits",
            nodes="2",
            count=2,
            inside=(*APART, f"n{index}"),
        )

    assert agents.statuses() == {"n1": 1, "n2": 1}
    first, second = told(agents, "n1"), told(agents, "n2")
    assert (first["outcome"], first["node"], second["node"]) == ("failed", "n1", "n2")
    cause = first["root_cause"]
    assert cause == second["root_cause"]
    assert (cause["node"], cause["rank"], cause["cause"], cause["exit_code"]) == ("n2", 1, "worker failed", 1)
    assert "the loss is not a number" in cause["message"]
    assert "the loss is not a number" in Path(cause["log"]).read_text()
    assert first["restarts"]["failures"] == 1


def test_a_run_that_saved_on_a_notice_says_so(agents: Agents) -> None:
    agents.start(1, "--json", agents.script(STEPPER), inside=(*APART, "n1"))
    wait_until(lambda: "step 3" in agents.output(0, 1), PATIENCE_S, "it trains")
    agents.signal("n1", signal.SIGUSR2)

    assert agents.status("n1") == 80
    answer = told(agents, "n1")
    assert (answer["status"], answer["outcome"], answer["root_cause"]) == (80, "saved", None)
    assert "saved" in answer["message"]


def test_too_few_nodes_are_told_as_well(agents: Agents) -> None:
    words = ("--json", "--rdzv-conf", "join_timeout=0.5,heartbeat=0.3", agents.script(LOUD), "0")
    agents.start(1, *words, nodes="2", count=2, inside=(*APART, "n1"))

    assert agents.status("n1") == 85
    answer = told(agents, "n1")
    assert (answer["outcome"], answer["round"]) == ("rendezvous_timeout", None)
    assert "1 of 2 nodes" in answer["message"]


def test_a_worker_that_ends_with_the_status_of_wrong_usage_has_failed(agents: Agents) -> None:
    script = agents.script("import sys\nsys.exit(64)")

    ended = run(agents.folder, "--standalone", "--max-restarts=0", script)

    answer = json.loads(ended.stdout)
    assert (ended.returncode, answer["status"], answer["outcome"]) == (64, 64, "failed")


def test_of_a_wrong_command_line_standard_output_says_nothing(agents: Agents) -> None:
    ended = run(agents.folder, "--standalone", "nowhere.py")

    assert (ended.returncode, ended.stdout) == (64, "")
    assert "nowhere.py does not exist" in ended.stderr


def test_a_reader_that_has_gone_changes_nothing_about_how_the_run_ends(agents: Agents) -> None:
    """`| head -0`: the pipe is broken before there is anything to write."""
    reading, writing = os.pipe()
    os.close(reading)
    with subprocess.Popen(
        [sys.executable, "-m", "hpc_elastic", "run", "--json", "--standalone", agents.script(LOUD), "none"],
        cwd=agents.folder,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(_ROOT)},
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
    ) as agent:
        os.close(writing)
        complaint = agent.communicate(timeout=PATIENCE_S)[1]

    assert agent.returncode == 0, complaint
    assert "standard output did not take the JSON: Broken pipe" in complaint
    assert "Traceback" not in complaint
