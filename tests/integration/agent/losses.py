"""What the tests of lost nodes share: workers that sleep, and what the survivors have made of a loss."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from hpc_elastic.rendezvous.record import Cause
from hpc_elastic.status import snapshot
from tests.integration.agent.agents import Agents

HEARTBEAT_S: Final = 2.0
LIVENESS_S: Final = 3 * HEARTBEAT_S
# The last call is for slow machines: all three are in the first round. No round after a loss waits for it.
TIMES: Final = f"heartbeat={HEARTBEAT_S},last_call=60,join_window=0.1,join_timeout=120"
# The liveness time and two seconds are what is promised, and measured by benchmarks/agent.py; the rest is for
# a busy machine, on which an agent may stand still for seconds.
WITHIN_S: Final = LIVENESS_S + 2.0 + 40.0

# Notices nothing of its peers, as a training does that waits in a collective.
SLEEPER: Final = """
import os, time
print(f"world {os.environ['WORLD_SIZE']} round {os.environ['HPC_ELASTIC_ROUND']}", flush=True)
time.sleep(600)
"""


def wait_for_round(agents: Agents, number: int, size: int) -> None:
    """Until all ranks of this round have begun."""
    for rank in range(size):
        agents.wait_for_line(f"world {size} round {number}", rank, number)


def assert_goes_on_without(agents: Agents, lose: Callable[[], None], *, left: int) -> float:
    """After `lose` the others run round 2 within the liveness time; in how many seconds."""
    began_s = time.monotonic()
    lose()
    wait_for_round(agents, 2, left)
    took_s = time.monotonic() - began_s
    assert took_s < WITHIN_S
    assert settled(agents, 1) is Cause.MEMBER_LOST
    return took_s


def settled(agents: Agents, number: int) -> Cause | None:
    """The cause that counts for the end of a round."""
    found = snapshot.read(agents.run_dir).round(number)
    return found.settled.cause if found is not None and found.settled is not None else None


def failures_before(agents: Agents, number: int) -> int:
    """How many failures the run had spent when a round began."""
    found = snapshot.read(agents.run_dir).round(number)
    assert found is not None
    return found.proposal.failures
