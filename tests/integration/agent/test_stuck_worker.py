"""A worker stuck in the kernel does not die: every wait is bounded, and its node is suspect."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from hpc_elastic.status import render, snapshot
from hpc_elastic.testing.passthrough.faults import FLOCK_HANGS, MountFaults
from hpc_elastic.testing.passthrough.mount import mounted
from hpc_elastic.workers.shutdown import GIVE_UP_AFTER_KILL_S
from tests.integration.agent.agents import Agents, agents_in
from tests.integration.agent.test_ways_to_end import rows

LOCKS: Final = """
import fcntl, sys
with open(sys.argv[1], "w") as file:
    print("locks", flush=True)
    fcntl.flock(file, fcntl.LOCK_EX)
"""
_BOUND_S: Final = 60.0


@pytest.fixture
def agents(tmp_path: Path) -> Iterator[Agents]:
    with agents_in(tmp_path) as made:
        yield made


@pytest.mark.needs_fuse
def test_a_worker_in_a_call_that_never_returns_makes_its_node_suspect(agents: Agents, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    watched = ("--watchdog-timeout", "1", "--watchdog-source", "output", "--shutdown-timeout", "1")
    with mounted(source, tmp_path / "mount", MountFaults(flock=FLOCK_HANGS)) as mount:
        began_s = time.monotonic()
        name = agents.start(0, *watched, agents.script(LOCKS), mount.path / "file")
        agents.wait_for_line("locks", 0, 1)

        status, _, cause = rows("more than a script")["stuck in the kernel"]
        assert agents.status(name) == int(status), agents.console(name)

        took_s = time.monotonic() - began_s
    stuck = r"python\S* \(pid \d+, state D( in \w+)?\)"
    found = (
        rf"no output of any rank of its node for 1 s; it is stuck in the kernel \({stuck}\), so it could not"
    )
    last = rf"{cause}: {stuck}; have this node checked"
    console = agents.console(name)
    assert re.search(found, console), console
    assert re.search(last, console.splitlines()[-1]), console
    assert GIVE_UP_AFTER_KILL_S <= took_s < GIVE_UP_AFTER_KILL_S + _BOUND_S
    assert cause in "\n".join(render.lines(snapshot.read(agents.run_dir)))
