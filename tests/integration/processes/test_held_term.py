"""Slurm sends TERM to every process of a step when a preemption begins: a rank with a context goes on."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator

import pytest

from hpc_elastic.workers.group import WorkerGroup
from hpc_elastic.workers.page import Page
from tests.integration.processes.bench import PATIENCE_S, Bench, until_exited
from tests.waiting import wait_until

STEPS = """
from hpc_elastic import worker
ctx = worker.context()
{before}
print("up", flush=True)
step = 0
while not ctx.should_stop(step):
    step += 1
ctx.leave()
"""
FORKS = """
import multiprocessing as mp, os
reader, writer = os.pipe()
helper = mp.get_context("fork").Process(target=os.read, args=(reader, 1))
helper.start()
helper.terminate()
helper.join()
print("forked", helper.exitcode, flush=True)
"""
EXECS = """
import subprocess
helper = subprocess.Popen(["sleep", "600"])
helper.terminate()
print("run", helper.wait(), flush=True)
"""
SPAWNS = """
import multiprocessing as mp, time
from hpc_elastic import worker
ctx = worker.context()
if __name__ == "__main__":
    helper = mp.get_context("spawn").Process(target=time.sleep, args=(600,))
    helper.start()
    time.sleep(0.5)
    helper.terminate()
    helper.join()
    print("spawned", helper.exitcode, flush=True)
    ctx.leave()
"""


@pytest.fixture
def page() -> Iterator[Page]:
    page = Page.create(1)
    yield page
    page.close()


def start(bench: Bench, page: Page, text: str) -> WorkerGroup:
    return bench.start(bench.script(text), 1, {"HPC_ELASTIC_PAGE": page.env_value()}, [page.fd])


def test_term_does_not_end_a_rank_that_stops_by_agreement(bench: Bench, page: Page) -> None:
    group = start(bench, page, STEPS.format(before=""))
    bench.wait_for("up")
    for _ in range(5):
        group.signal(signal.SIGTERM)
    step = page.rank(0).step
    wait_until(lambda: page.rank(0).step > step + 1000, timeout_s=PATIENCE_S, what="the rank goes on")

    page.raise_notice("preempted", time.monotonic() + 600)
    page.set_stop_step((page.highest_step() or 0) + 1)

    assert until_exited(group).exits[0].returncode == 0
    assert page.rank(0).holds_term


def test_such_a_rank_is_ended_by_hanging_up(bench: Bench, page: Page) -> None:
    group = start(bench, page, STEPS.format(before=""))
    bench.wait_for("up")

    group.hang_up([0])

    assert until_exited(group).exits[0].returncode == -signal.SIGHUP


def test_a_script_keeps_its_own_action_for_term(bench: Bench, page: Page) -> None:
    own = "import signal, sys; signal.signal(signal.SIGTERM, lambda *_: sys.exit(5))"
    group = start(bench, page, own + STEPS.format(before=""))
    bench.wait_for("up")
    assert not page.rank(0).holds_term

    group.signal(signal.SIGTERM)

    assert until_exited(group).exits[0].returncode == 5


def test_without_an_agent_term_keeps_its_default_action(bench: Bench) -> None:
    group = bench.start(bench.script(STEPS.format(before="")), 1)
    bench.wait_for("up")

    group.signal(signal.SIGTERM)

    assert until_exited(group).exits[0].returncode == -signal.SIGTERM


@pytest.mark.parametrize(
    ("script", "told"),
    [
        (STEPS.format(before=FORKS), "forked -15"),
        (STEPS.format(before=EXECS), "run -15"),
        (SPAWNS, "spawned -15"),
    ],
)
def test_helpers_of_such_a_rank_are_ended_by_term(bench: Bench, page: Page, script: str, told: str) -> None:
    group = start(bench, page, script)

    bench.wait_for(told)

    page.raise_notice("preempted", time.monotonic())
    assert until_exited(group).exits[0].returncode == 0
