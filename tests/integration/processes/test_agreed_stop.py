"""The agreed stop between real processes: ranks at full speed, and a flag raised at any moment."""

from __future__ import annotations

import json
import signal
import time

import pytest

from hpc_elastic.workers.page import Page
from tests.integration.processes.bench import PATIENCE_S, PYTHON, Bench, until_exited
from tests.waiting import wait_until

# Each rank runs one loop per page and tells the step at which it was stopped. A page more, the gate,
# says which race is on: ranks that wait for nobody else would drift apart without bound.
RACER = """
import json, os, time
from hpc_elastic.worker import Context
from hpc_elastic.workers.page import WorkerPage

slot = int(os.environ["LOCAL_RANK"])
gate, *values = os.environ["PAGES"].split(",")
gate = WorkerPage.attach(gate, slot)
stops = []
for race, value in enumerate(values):
    while (gate.stop_step() or 0) < race:
        time.sleep(0.0002)
    ctx = Context(page=WorkerPage.attach(value, slot))
    step = 0
    while not ctx.should_stop(step):
        step += 1
    ctx.saved(step)
    stops.append(step)
print(json.dumps(stops))
"""
STEPS = """
from hpc_elastic import worker
ctx = worker.context()
print("up", flush=True)
step = 0
while not ctx.should_stop(step):
    step += 1
ctx.saved(step)
ctx.leave()
"""
RACES = 200
RANKS = 2


def test_no_rank_passes_the_agreed_step(bench: Bench) -> None:
    gate, *pages = (Page.create(RANKS) for _ in range(RACES + 1))
    env = {"PAGES": ",".join(page.env_value() for page in (gate, *pages))}
    group = bench.start(bench.script(RACER), RANKS, env, [page.fd for page in (gate, *pages)])
    agreed = []

    for number, page in enumerate(pages):
        gate.set_stop_step(number)
        wait_until(
            lambda page=page: all(view.step > 50 for view in page.ranks()),  # type: ignore[misc]
            timeout_s=PATIENCE_S,
            what="every rank steps",
        )
        # No two races alike: the moment moves through a step.
        raise_at_s = time.monotonic() + number * 1e-6
        while time.monotonic() < raise_at_s:
            pass
        page.raise_notice("preempted", time.monotonic() + 600)
        highest = page.highest_step()
        assert highest is not None
        agreed.append(highest + 1)
        page.set_stop_step(highest + 1)
        wait_until(
            lambda page=page: all(view.saved_step >= 0 for view in page.ranks()),  # type: ignore[misc]
            timeout_s=PATIENCE_S,
            what="every rank has stopped",
        )

    state = until_exited(group)
    assert [each.returncode for each in state.exits] == [0] * RANKS
    for rank in range(RANKS):
        assert json.loads(bench.out(rank)) == agreed
    for page in (gate, *pages):
        page.close()


@pytest.mark.parametrize(
    "form",
    [
        "the worker itself",
        "behind a shell",
        "behind a launcher that closes descriptors",
        "behind a launcher that reuses the descriptor",
    ],
)
def test_a_worker_finds_its_page_however_it_was_started(bench: Bench, form: str) -> None:
    script = bench.script(STEPS)
    page = Page.create(1)
    close = f"import subprocess, sys; sys.exit(subprocess.run([{PYTHON!r}, {script.target!r}]).returncode)"
    reuse = f"import os, sys; os.dup2(2, {page.fd}); os.execv({PYTHON!r}, [{PYTHON!r}, {script.target!r}])"
    programs = {
        "the worker itself": script,
        "behind a shell": bench.command("sh", "-c", f"{PYTHON} {script.target}; exit $?"),
        "behind a launcher that closes descriptors": bench.command(PYTHON, "-c", close),
        "behind a launcher that reuses the descriptor": bench.command(PYTHON, "-c", reuse),
    }
    env = {"HPC_ELASTIC_PAGE": page.env_value()}
    group = bench.start(programs[form], 1, env, [page.fd])
    wait_until(lambda: page.rank(0).step > 0, timeout_s=PATIENCE_S, what="the worker steps")

    page.raise_notice("preempted", time.monotonic() + 600)
    page.set_stop_step((page.highest_step() or 0) + 1)

    assert until_exited(group).exits[0].returncode == 0
    view = page.rank(0)
    assert view.leaving
    assert view.saved_step == view.step
    page.close()


def test_a_worker_whose_agent_names_no_step_stops_by_itself_in_the_end(bench: Bench) -> None:
    page = Page.create(1)
    group = bench.start(bench.script(STEPS), 1, {"HPC_ELASTIC_PAGE": page.env_value()}, [page.fd])
    wait_until(lambda: page.rank(0).step > 0, timeout_s=PATIENCE_S, what="the worker steps")

    page.raise_notice("preempted", time.monotonic() + 0.2)

    assert until_exited(group).exits[0].returncode == 0
    assert page.rank(0).leaving
    page.close()


def test_a_waiting_worker_can_still_be_stopped(bench: Bench) -> None:
    page = Page.create(1)
    group = bench.start(bench.script(STEPS), 1, {"HPC_ELASTIC_PAGE": page.env_value()}, [page.fd])
    wait_until(lambda: page.rank(0).step > 0, timeout_s=PATIENCE_S, what="the worker steps")
    page.raise_notice("preempted", time.monotonic() + 600)

    group.ask()
    group.hang_up([0])

    ended = until_exited(group).exits[0]
    assert (ended.returncode, ended.was_asked) == (-signal.SIGHUP, True)
    page.close()
