"""Agents whose wall clocks differ, and step while they run: nobody may notice."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.agent.agents import STEPPER, Agents, agents_in
from tests.waiting import wait_until

pytestmark = pytest.mark.alone

LIBRARY = next(iter(sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))), None)
ROOT = Path(__file__).resolve().parents[3]
OFFSETS_S = (-3600, -20, 20, 3600)
HEARTBEAT_S = 1.0
LIVENESS_S = 3 * HEARTBEAT_S
SOON_S = 120.0
# 10 ms and more a step: long enough for everybody to be missed, were time of day of any account.
MANY_STEPS = int(2 * LIVENESS_S / 0.01)
# All of this looks at the first round: so that waits for the last of the four, however long it starts.
CONF = ("--rdzv-conf", f"heartbeat={HEARTBEAT_S},last_call=60,join_window=0.1")

IN_TIME = ("unshare", "--time", "--monotonic")


def has_time_namespaces() -> bool:
    """Whether this machine lets a process have a monotonic clock of its own, from its own start on."""
    if not shutil.which("unshare"):
        return False
    told = [*IN_TIME, "100000000", sys.executable, "-c", "import time; print(time.monotonic() > 1e8)"]
    return subprocess.run(told, capture_output=True, check=False).stdout.strip() == b"True"


# As the stepper, and says what it takes the time to be.
WITH_TIME = STEPPER.replace(
    "    ctx.progress(step)", "    print('clock', int(time.time()), flush=True)\n    ctx.progress(step)", 1
)
# Python sleeps until a time on the monotonic clock. libfaketime 0.9.10 adds its offset to that as well, so
# the call is refused or lasts for hours; waiting for an event is right.
SITE = "import threading, time\ntime.sleep = lambda seconds: threading.Event().wait(seconds) and None\n"


@pytest.fixture
def agents(tmp_path: Path) -> Iterator[Agents]:
    with agents_in(tmp_path) as made:
        yield made


def set_clock(agents: Agents, index: int, offset_s: int) -> None:
    """Set the wall clock of one agent and its workers; they read it at each look at the time."""
    path = agents.folder / f"clock-{index}"
    temporary = path.with_suffix(".new")
    temporary.write_text(f"{offset_s:+d}\n")
    temporary.replace(path)


def start(agents: Agents, index: int, script: Path, nodes: str) -> None:
    """Start an agent whose clock is set by `set_clock`."""
    site = agents.folder / "site"
    if not site.exists():  # once: an agent that starts may be reading it
        site.mkdir()
        (site / "sitecustomize.py").write_text(SITE)
    environment = {
        "PYTHONPATH": f"{site}:{ROOT}",
        "LD_PRELOAD": str(LIBRARY),
        "FAKETIME_TIMESTAMP_FILE": str(agents.folder / f"clock-{index}"),
        "FAKETIME_NO_CACHE": "1",
        # Its CLOCK_MONOTONIC does not go with the waits of threads, which it leaves to the real one: with an
        # offset of an hour they last for an hour more. Real other origins are in the test with namespaces.
        "DONT_FAKE_MONOTONIC": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }
    agents.start(index, *CONF, script, nodes=nodes, count=len(OFFSETS_S), environment=environment)


def clock_of(agents: Agents, rank: int) -> int:
    """What a rank took the time to be when it last looked; 0 before it did."""
    said = [line for line in agents.output(rank, 1) if line.startswith("clock ")]
    return int(said[-1].split()[1]) if said else 0


def steps_of(agents: Agents, rank: int) -> int:
    return sum(line.startswith("step ") for line in agents.output(rank, 1))


@pytest.mark.needs_faketime
@pytest.mark.parametrize("nodes", ["4", "2:4"])
def test_clocks_that_differ_by_hours_and_step_disturb_nobody(agents: Agents, nodes: str) -> None:
    script = agents.script(WITH_TIME)
    for index, offset_s in enumerate(OFFSETS_S):
        set_clock(agents, index, offset_s)
        start(agents, index, script, nodes)
    agents.wait_for_world(4)
    wait_until(lambda: all(clock_of(agents, rank) for rank in range(4)), SOON_S, "all say their time")
    clocks = [clock_of(agents, rank) for rank in range(4)]
    assert max(clocks) - min(clocks) > 7000

    for index, offset_s in enumerate(OFFSETS_S):
        set_clock(agents, index, -offset_s)
    wait_until(lambda: clock_of(agents, 0) - clock_of(agents, 3) > 7000, SOON_S, "the clocks have stepped")
    wanted = [steps_of(agents, rank) + MANY_STEPS for rank in range(4)]
    wait_until(lambda: all(steps_of(agents, rank) >= wanted[rank] for rank in range(4)), SOON_S, "all go on")

    assert {path.name for path in agents.run_dir.glob("logs/*/*")} == {"1"}
    end(agents)


@pytest.mark.skipif(not has_time_namespaces(), reason="needs root, unshare and time namespaces (Linux 6.1)")
def test_monotonic_clocks_with_other_origins_are_of_no_account(agents: Agents) -> None:
    script = agents.script(WITH_TIME)
    for index, offset_s in enumerate((0, 20, 3600, 86400)):
        agents.start(index, *CONF, script, nodes="2:4", count=4, inside=(*IN_TIME, str(offset_s)))

    agents.wait_for_world(4)
    wait_until(lambda: all(steps_of(agents, rank) >= MANY_STEPS for rank in range(4)), SOON_S, "all go on")

    assert {path.name for path in agents.run_dir.glob("logs/*/*")} == {"1"}
    end(agents)


def end(agents: Agents) -> None:
    agents.signal("n2", signal.SIGTERM)
    assert agents.statuses() == {f"n{index}": 80 for index in range(4)}
