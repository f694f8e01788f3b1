"""After failures: what is counted, when the run is given up, who is left out, and what is said of it."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from hpc_elastic.status import render, snapshot
from tests.integration.agent.agents import PATIENCE_S, Agents, agents_in
from tests.waiting import wait_until

# The n-th failure is that of rank n, once all have told; the third of them waits for the job's second start.
IN_TURN: Final = """
import os, pathlib, sys, time
names = ("TORCHELASTIC_RESTART_COUNT", "HPC_ELASTIC_RESTART_COUNT", "HPC_ELASTIC_MEMBERSHIP_CHANGES",
         "TORCHELASTIC_MAX_RESTARTS")
count, attempt = int(os.environ[names[0]]), os.environ["HPC_ELASTIC_ATTEMPT"]
print(*(os.environ[name] for name in names), flush=True)
place, number = pathlib.Path(os.environ["HPC_ELASTIC_RUN_DIR"]), os.environ["HPC_ELASTIC_ROUND"]
(place / f"told-{number}-{os.environ['RANK']}").touch()
while len(list(place.glob(f"told-{number}-*"))) < int(os.environ["WORLD_SIZE"]):
    time.sleep(0.02)
if int(os.environ["RANK"]) == count and (count, attempt) != (2, "1"):
    raise SystemExit(40 + count)
time.sleep(600)
"""
FAILS_ON_N1: Final = """
import os, pathlib, sys, time
if "-n1-" in os.environ["HPC_ELASTIC_NODE"]:
    raise ValueError(f"no device {os.getpid()}")
while not pathlib.Path(sys.argv[1]).exists():
    time.sleep(0.05)
"""
# Its work is done once it goes on alone after there were two.
UNTIL_ALONE: Final = """
import pathlib, time
from hpc_elastic import worker

ctx = worker.context()
print(f"world {ctx.world_size} round {ctx.round}", flush=True)
two = pathlib.Path(ctx.run_dir) / "two"
if ctx.world_size == 2:
    two.touch()
for step in range(10**9):
    if ctx.world_size == 1 and two.exists():
        break
    ctx.progress(step)
    time.sleep(0.01)
    if ctx.should_stop(step):
        ctx.saved(step)
        ctx.leave()
"""
# An agent with a fault of its own: it shows while its workers run.
BROKEN: Final = """
import sys
from hpc_elastic.agent.local_round import LocalRound
from hpc_elastic.cli.main import main

def look(self, **given):
    if self.progress() > 5:
        raise OSError("no space left on device")
    return whole(self, **given)

whole, LocalRound.look = LocalRound.look, look
raise SystemExit(main(sys.argv[4:]))
"""


@pytest.fixture
def agents(tmp_path: Path) -> Iterator[Agents]:
    with agents_in(tmp_path) as made:
        yield made


def start_three(agents: Agents, restart: int) -> None:
    for index in range(3):
        words = ("--max-restarts", "2", agents.script(IN_TURN))
        agents.start(index, *words, nodes="3", count=3, restart=restart)


def test_failures_rotate_over_three_nodes_and_the_third_ends_the_run_also_after_a_requeue(
    agents: Agents,
) -> None:
    start_three(agents, restart=0)
    wait_until(lambda: all(agents.output(rank, 3) for rank in range(3)), PATIENCE_S, "a third round")
    agents.signal("n0", signal.SIGTERM)
    agents.statuses()
    start_three(agents, restart=1)

    assert agents.statuses() == {"n0": 42, "n1": 42, "n2": 42}
    for failures, (number, attempt) in enumerate([(1, 1), (2, 1), (3, 1)]):
        told = {tuple(agents.output(rank, number, attempt)) for rank in range(3)}
        assert told == {(f"{failures} {failures} 0 2",)}
    assert {tuple(agents.output(rank, 4, attempt=2)) for rank in range(3)} == {("2 2 0 2",)}
    assert not agents.output(0, 5, attempt=2)


def test_the_whole_story_is_told_once_by_the_agent_of_the_rank_that_failed(agents: Agents) -> None:
    script = agents.script(
        "import os, time\nif os.environ['RANK'] == '1': raise ValueError('batch 7')\ntime.sleep(600)"
    )
    for index in range(2):
        agents.start(index, "--max-restarts", "0", script, nodes="2", count=2)

    assert agents.statuses() == {"n0": 1, "n1": 1}
    log = agents.run_dir / "logs" / "1" / "1" / "1.err"
    story = "the run failed: rank 1 on n1 failed with exit code 1: ValueError: batch 7"
    said = agents.console("n1").splitlines()
    assert story in said[-1]
    assert said[-1].endswith(f"; its log is {log}")
    assert any(line.endswith("raise ValueError('batch 7')") for line in said)
    assert "the run failed: rank 1 on n1, whose agent says how" in agents.console("n0").splitlines()[-1]
    assert "batch 7" not in agents.console("n0")
    assert story.partition(": ")[2] in "\n".join(render.lines(snapshot.read(agents.run_dir)))


def test_a_crash_loop_ends_with_82_and_is_explained(agents: Agents) -> None:
    script = agents.script("import os; raise ValueError(f'port {os.getpid()} is taken')")
    name = agents.start(0, "--max-restarts", "9", "--restart-backoff", "0", script)

    assert agents.status(name) == 82
    last = agents.console(name).splitlines()[-1]
    assert "rank 0 on n0 failed with exit code 1: ValueError: port" in last
    assert "the same failure 3 times in a row, each within 60 s of the start and before a first step" in last
    assert not (agents.run_dir / "logs" / "1" / "4").exists()


@pytest.mark.parametrize("text", ["x = = 1", "import no_such_module_at_all"])
def test_what_no_restart_can_cure_ends_the_run_at_once(agents: Agents, text: str) -> None:
    name = agents.start(0, agents.script(text))

    assert agents.status(name) == 1
    assert "no restart can cure that, and none was tried" in agents.console(name).splitlines()[-1]
    assert not (agents.run_dir / "logs" / "1" / "2").exists()


def test_a_node_that_fails_again_and_again_is_left_out_and_named(agents: Agents) -> None:
    finish = agents.folder / "finish"
    words = ("--restart-backoff", "0.1", agents.script(FAILS_ON_N1), finish)
    for index in range(2):
        agents.start(index, *words, nodes="1:2", count=2)

    assert agents.status("n1") == 83
    finish.touch()
    assert agents.status("n0") == 0
    assert (
        "the run goes on without node n1: 3 rounds were ended by failures of its workers"
        in agents.console("n1")
    )
    assert "rank 0 of 1 on 1 node (worker failed); without n1, left out" in agents.console("n0")
    assert "left out: n1, whose workers ended 3 rounds" in "\n".join(
        render.lines(snapshot.read(agents.run_dir))
    )
    events = (agents.run_dir / "events" / "n0.jsonl").read_text().splitlines()
    assert json.loads(events[-1])["metadata"]["left_out"] == "n1"


def test_a_node_that_is_needed_stays_and_the_agents_say_so(agents: Agents) -> None:
    never = agents.folder / "never"
    words = ("--restart-backoff", "0", "--same-failures", "0", agents.script(FAILS_ON_N1), never)
    for index in range(2):
        agents.start(index, *words, nodes="2", count=2)

    assert agents.statuses() == {"n0": 1, "n1": 1}
    assert "n1 ended too many rounds and stays, for 2 nodes are the minimum" in agents.console("n0")


@pytest.mark.parametrize("way", ["leaves", "fails", "crashes"])
def test_an_agent_that_goes_does_not_close_the_run_for_the_others(agents: Agents, way: str) -> None:
    broken = agents.folder / "broken.py"
    broken.write_text(BROKEN)
    inside = (sys.executable, str(broken)) if way == "fails" else ()
    script = agents.script(UNTIL_ALONE)
    # In a pool a notice concerns the node that hears it alone.
    words = ("--pool", script) if way == "leaves" else (script,)
    for index in range(2):
        seat = {"HPC_ELASTIC_JOB_ID": f"7{index}"} if way == "leaves" else {}
        of_it = inside if index == 1 else ()
        agents.start(index, *words, nodes="1:2", count=2, environment=seat, inside=of_it)
    if way != "fails":
        agents.wait_for_world(2)
        agents.signal("n1", signal.SIGUSR2 if way == "leaves" else signal.SIGKILL)

    assert agents.status("n0") == 0
    assert agents.status("n1") == {"leaves": 80, "fails": 1, "crashes": -9}[way]
    assert "of 1 on 1 node" in agents.console("n0")
