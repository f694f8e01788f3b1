"""Who leaves never closes a run: whatever ended an agent, the next one goes on."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from hpc_elastic.rendezvous.codec import decode
from hpc_elastic.rendezvous.record import Closed
from tests.integration.agent.agents import STEPPER, Agents, agents_in

# What ends an agent, and its status. A plain kill is among them: nobody has said goodbye then.
WAYS = (
    (signal.SIGTERM, 80),
    (signal.SIGINT, 80),
    (signal.SIGQUIT, 80),
    (signal.SIGUSR1, 80),
    (signal.SIGUSR2, 80),
    (signal.SIGKILL, -signal.SIGKILL),
)


@pytest.fixture
def agents(tmp_path: Path) -> Iterator[Agents]:
    with agents_in(tmp_path) as made:
        yield made


def closings(agents: Agents) -> list[str]:
    rounds = (agents.run_dir / "record" / "rounds").iterdir()
    return [path.name for path in rounds if isinstance(decode(path.read_bytes()), Closed)]


def test_no_way_to_end_closes_the_run_and_the_next_agent_goes_on(agents: Agents) -> None:
    script = agents.script(STEPPER)
    for start, (signum, status) in enumerate(WAYS):
        attempt = number = start + 1
        agents.start(0, script, restart=start)
        agents.wait_for_line(f"world 1 round {number}", 0, number, attempt)
        agents.signal("n0", signum)

        assert agents.statuses() == {"n0": status}, signum.name
        assert closings(agents) == [], signum.name

    agents.start(0, script, "3", restart=len(WAYS))
    assert agents.statuses() == {"n0": 0}
    assert len(closings(agents)) == 1
