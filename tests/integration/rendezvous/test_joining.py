"""Nodes come and go while agents run: who is in the next round, in which place, and where its master is."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.agent.agents import STEPPER, Agents, agents_in
from tests.waiting import wait_until

# The last call is for slow machines: all that are to be in the first round are. No later round waits for it.
CALM = ("--rdzv-conf", "heartbeat=1,last_call=60,join_window=0.1")
SOON_S = 120.0

# As the stepper, but all go on where rank 0 has saved; and each says who it is and where its master is.
TELLER = STEPPER.replace(
    "for step in range",
    """
import os
rank_0 = pathlib.Path(ctx.checkpoint_dir) / "0.step"
first = int(rank_0.read_text()) + 1 if rank_0.exists() else 0
print("master", os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"], flush=True)
print("node", os.environ["HPC_ELASTIC_NODE"].split("-")[1], flush=True)
for step in range""",
    1,
)


ENDS_WHEN_TOLD = """
    if pathlib.Path("finish").exists():
        break
"""


@pytest.fixture
def agents(tmp_path: Path) -> Iterator[Agents]:
    with agents_in(tmp_path) as made:
        yield made


def newest_round(agents: Agents) -> int:
    return max(int(path.name) for path in agents.run_dir.glob("logs/*/*"))


def told(agents: Agents, what: str, world: int, round_number: int, attempt: int = 1) -> list[str]:
    """What each rank of a round has said of itself, in the order of ranks, once all have."""

    def said() -> list[str]:
        outputs = [agents.output(rank, round_number, attempt) for rank in range(world)]
        lines = [line for output in outputs for line in output if line.startswith(f"{what} ")]
        return lines if len(lines) == world else []

    found = wait_until(said, SOON_S, f"all ranks of round {round_number} tell their {what}")
    return [line.removeprefix(f"{what} ") for line in found]


def end(agents: Agents, name: str) -> None:
    """Preempt the run by one of its agents; all must have saved."""
    agents.signal(name, signal.SIGTERM)
    living = {one: process for one, process in agents.processes.items() if process.poll() is None}
    assert {one: agents.status(one) for one in living} == dict.fromkeys(living, 80)


def test_two_that_join_one_after_the_other_make_one_new_round(agents: Agents) -> None:
    script = agents.script(TELLER)
    window = ("--rdzv-conf", "heartbeat=1,last_call=60,join_window=10")
    for index in (0, 1):
        agents.start(index, *window, script, nodes="2:4", count=2)
    agents.wait_for_world(2)

    agents.start(2, *window, script, nodes="2:4", count=2)
    threading.Event().wait(0.2)
    agents.start(3, *window, script, nodes="2:4", count=2)

    agents.wait_for_world(4)
    assert newest_round(agents) == 2
    assert told(agents, "node", 4, 2) == ["n0", "n1", "n2", "n3"]
    end(agents, "n3")


def test_a_spare_ends_with_0_when_the_run_succeeds(agents: Agents) -> None:
    script = agents.script(TELLER.replace("    ctx.progress", f"{ENDS_WHEN_TOLD}    ctx.progress", 1))
    for index in range(3):
        agents.start(index, *CALM, script, nodes="2", count=3)
    wait_until(lambda: len(list(agents.run_dir.glob("record/nodes/*"))) == 3, SOON_S, "the spare is there")
    wait_until(lambda: agents.output(0, 1), SOON_S, "the round has begun")
    (agents.folder / "finish").touch()

    assert agents.statuses() == {"n0": 0, "n1": 0, "n2": 0}
    assert newest_round(agents) == 1


def test_a_former_member_keeps_its_place_before_a_spare(agents: Agents) -> None:
    fails_once = (
        "import os, sys, pathlib\n"
        "if os.environ['RANK'] == '1' and os.environ['TORCHELASTIC_RESTART_COUNT'] == '0':\n"
        "    import time\n"
        "    while not pathlib.Path('go').exists(): time.sleep(0.02)\n"
        "    sys.exit(3)\n"
    )
    script = agents.script(fails_once + TELLER)
    for index in (0, 1):
        agents.start(index, *CALM, script, nodes="2", count=2)
    told(agents, "node", 1, 1)
    agents.start(2, *CALM, script, nodes="2", count=2)
    wait_until(lambda: len(list(agents.run_dir.glob("record/nodes/*"))) == 3, SOON_S, "the spare is there")

    (agents.folder / "go").touch()

    assert told(agents, "node", 2, 2) == ["n0", "n1"]
    end(agents, "n0")


def test_a_spare_takes_the_place_of_a_lost_member(agents: Agents) -> None:
    script = agents.script(TELLER)
    for index in (0, 1):
        agents.start(index, *CALM, script, nodes="2", count=2)
    agents.wait_for_world(2)
    agents.start(2, *CALM, script, nodes="2", count=2)
    wait_until(lambda: len(list(agents.run_dir.glob("record/nodes/*"))) == 3, SOON_S, "the spare is there")

    agents.signal("n0", signal.SIGKILL)

    assert told(agents, "node", 2, 2) == ["n1", "n2"]
    end(agents, "n2")


def test_rank_0_is_lost_twice_and_all_workers_of_each_round_have_one_master(agents: Agents) -> None:
    script = agents.script(TELLER)
    for index in range(4):
        agents.start(index, *CALM, script, nodes="2:4", count=4)
    masters = [told(agents, "master", 4, 1)]
    for number, lost in ((2, "n0"), (3, "n1")):
        agents.signal(lost, signal.SIGKILL)
        masters.append(told(agents, "master", 5 - number, number))

    assert [len(set(of_round)) for of_round in masters] == [1, 1, 1]
    assert told(agents, "node", 2, 3) == ["n2", "n3"]
    end(agents, "n3")


def test_a_node_joins_while_rank_0_stays_whether_it_sorts_before_or_after_it(agents: Agents) -> None:
    script = agents.script(TELLER)
    agents.start(1, *CALM, script, nodes="1:3", count=1)
    masters = [told(agents, "master", 1, 1)]

    agents.start(0, *CALM, script, nodes="1:3", count=1)
    masters.append(told(agents, "master", 2, 2))
    agents.start(2, *CALM, script, nodes="1:3", count=1)
    masters.append(told(agents, "master", 3, 3))

    assert [len(set(of_round)) for of_round in masters] == [1, 1, 1]
    assert told(agents, "node", 3, 3) == ["n1", "n0", "n2"]
    end(agents, "n0")


def test_a_round_after_a_lost_node_does_not_wait_for_the_last_call(agents: Agents) -> None:
    script = agents.script(TELLER)
    patient = ("--rdzv-conf", "heartbeat=1,last_call=600")
    for index in range(3):
        agents.start(index, *patient, script, nodes="2:3", count=3)
    agents.wait_for_world(3)

    agents.signal("n2", signal.SIGKILL)

    assert told(agents, "node", 2, 2) == ["n0", "n1"]
    end(agents, "n0")
