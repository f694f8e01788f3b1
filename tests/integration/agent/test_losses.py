"""A node is lost while the workers of the others sleep: a new round within the liveness time, at no cost."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from hpc_elastic.rendezvous.record import Cause
from hpc_elastic.testing.passthrough.faults import MountFaults
from hpc_elastic.workers import tree
from tests.integration.agent.agents import PATIENCE_S, Agents, agents_in
from tests.integration.agent.losses import (
    SLEEPER,
    TIMES,
    assert_goes_on_without,
    failures_before,
    settled,
    wait_for_round,
)
from tests.integration.filesystem.mounts import two_mounts
from tests.waiting import wait_until

# Fails as soon as it sees that the worker of rank 1 is gone, long before anybody can know why.
FAILS_WITH_ITS_PEER = """
import os, pathlib, sys, time
place, rank, number = pathlib.Path(sys.argv[1]), os.environ["RANK"], os.environ["HPC_ELASTIC_ROUND"]
(place / f"{number}-{rank}").write_text(str(os.getpid()))
print(f"world {os.environ['WORLD_SIZE']} round {number}", flush=True)
peer = place / f"{number}-1"
while int(os.environ["WORLD_SIZE"]) < 3 or rank != "0":
    time.sleep(1)
while not peer.exists() or pathlib.Path(f"/proc/{peer.read_text()}").exists():
    time.sleep(0.02)
sys.exit(1)
"""


@pytest.fixture
def agents(tmp_path: Path) -> Iterator[Agents]:
    with agents_in(tmp_path) as made:
        yield made


def start_three(agents: Agents, script: str, *words: str | Path) -> None:
    path = agents.script(script)
    for index in range(3):
        agents.start(index, "--rdzv-conf", TIMES, path, *words, nodes="2:3", count=3)
    wait_for_round(agents, 1, 3)


def kill_with_workers(agents: Agents, name: str) -> None:
    """As a node does that loses power: nobody is left to say or end anything."""
    agent = agents.processes[name].pid
    agents.signal(name, signal.SIGSTOP)  # it starts nothing more while they are looked for
    wait_until(
        lambda: (seen := tree.look_at(agent)) is not None and seen.state == "T", PATIENCE_S, "it stops"
    )
    for pid in [*children(agent), agent]:
        os.kill(pid, signal.SIGKILL)


def children(pid: int) -> list[int]:
    found = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(word) for path in found for word in path.read_text().split()]


def end(agents: Agents) -> None:
    agents.signal("n0", signal.SIGTERM)
    agents.status("n0")
    agents.status("n2")


def test_an_agent_that_is_killed_with_its_workers_is_missed_in_time(agents: Agents) -> None:
    start_three(agents, SLEEPER)

    assert_goes_on_without(agents, lambda: kill_with_workers(agents, "n1"), left=2)

    assert failures_before(agents, 2) == 0
    end(agents)


def test_an_agent_that_is_stopped_is_missed_in_time(agents: Agents) -> None:
    start_three(agents, SLEEPER)

    assert_goes_on_without(agents, lambda: agents.signal("n1", signal.SIGSTOP), left=2)

    agents.signal("n1", signal.SIGKILL)
    end(agents)


def test_a_failure_that_a_loss_has_brought_about_counts_as_the_loss(agents: Agents, tmp_path: Path) -> None:
    start_three(agents, FAILS_WITH_ITS_PEER, tmp_path)

    kill_with_workers(agents, "n1")
    wait_for_round(agents, 2, 2)

    assert "rank 0 failed" in agents.console("n0") or "exit code 1" in agents.console("n0")
    assert settled(agents, 1) is Cause.MEMBER_LOST
    assert failures_before(agents, 2) == 0
    end(agents)


@pytest.mark.needs_fuse
def test_a_node_whose_mount_is_frozen_is_missed_in_time_and_comes_back(tmp_path: Path) -> None:
    with two_mounts(tmp_path, MountFaults()) as pair, agents_in(pair.source) as agents:
        path = agents.script(SLEEPER)
        good, bad = pair.paths("run")
        for index, run_dir in enumerate((good, bad, good)):
            agents.start(index, "--rdzv-conf", TIMES, "--run-dir", run_dir, path, nodes="2:3", count=3)
        wait_for_round(agents, 1, 3)

        assert_goes_on_without(agents, pair.other.freeze, left=2)

        pair.other.thaw()
        wait_for_round(agents, 3, 3)
        agents.signal("n0", signal.SIGTERM)
        agents.statuses()
