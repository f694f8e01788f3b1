"""Stopping workers: one deadline for all, and nothing left."""

from __future__ import annotations

import os
import signal
import time

import pytest

from hpc_elastic.workers import tree
from hpc_elastic.workers.group import GroupPhase, GroupState, WorkerGroup
from tests.integration.processes.bench import PATIENCE_S, Bench, until_exited, until_gone
from tests.waiting import wait_until

IGNORES_TERM = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("up", flush=True)
while True:
    time.sleep(1)
"""
SAVES = """
import signal, sys, time
def save(*_):
    time.sleep(0.3)
    print("saved", flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
print("up", flush=True)
while True:
    time.sleep(1)
"""
TWO_HELPERS = """
import signal, subprocess, sys, time
WAIT = "print('helper', flush=True); import time; time.sleep(600)"
DEAF = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); " + WAIT
subprocess.Popen([sys.executable, "-c", WAIT])
subprocess.Popen([sys.executable, "-c", DEAF], start_new_session=True)
print("up", flush=True)
{then}
"""


def test_a_worker_that_ignores_term_is_killed_at_the_deadline_with_its_stack_in_the_log(bench: Bench) -> None:
    group = bench.start(bench.script(IGNORES_TERM))
    bench.wait_for("up")

    # The group is told the time, so it is for us to say when the deadline comes.
    group.begin_stop(1.0, 0.0)
    assert group.advance(0.4).running == (0,)
    group.advance(0.6)
    wait_until(lambda: 'train.py", line 6' in bench.err(), PATIENCE_S, "a stack in the log")
    assert group.advance(0.99).running == (0,)
    state = until_over(group, 1.0)

    assert state.phase is GroupPhase.GONE
    assert (state.exits[0].returncode, state.exits[0].was_asked) == (-signal.SIGKILL, True)


def until_over(group: WorkerGroup, now_s: float) -> GroupState:
    """The state once nothing is left, by a clock that stands at that time."""
    wait_until(lambda: group.advance(now_s).is_over, PATIENCE_S, "the group is stopped and swept")
    return group.poll()


def test_a_worker_that_saves_is_given_its_time_and_one_signal(bench: Bench) -> None:
    group = bench.start(bench.script(SAVES), workers=2)
    bench.wait_for("up", rank=0)
    bench.wait_for("up", rank=1)
    group.ask([0])
    group.ask([0])

    state = until_gone(group, grace_s=60)

    assert [(each.returncode, each.was_asked) for each in state.exits] == [(0, True), (0, True)]
    assert bench.out(0) == bench.out(1) == "up\nsaved\n"


def test_a_worker_that_ended_before_it_was_asked_is_told_apart(bench: Bench) -> None:
    program = bench.script(f"import os\nif os.environ['LOCAL_RANK'] == '0':\n    os._exit(0)\n{SAVES}")
    group = bench.start(program, workers=2)
    bench.wait_for("up", rank=1)
    wait_until(lambda: 0 not in group.poll().running, timeout_s=PATIENCE_S, what="rank 0 has ended")

    state = until_gone(group, grace_s=60)

    assert {each.local_rank: each.was_asked for each in state.exits} == {0: False, 1: True}


def test_term_keeps_its_default_action_for_a_plain_script(bench: Bench) -> None:
    group = bench.start(bench.script("import time; print('up'); time.sleep(600)"))
    bench.wait_for("up")

    state = until_gone(group, grace_s=60)

    assert state.exits[0].returncode == -signal.SIGTERM


def test_a_suspended_worker_hears_that_it_is_to_stop(bench: Bench) -> None:
    group = bench.start(bench.script(SAVES))
    bench.wait_for("up")
    group.signal(signal.SIGSTOP)

    assert until_gone(group, grace_s=60).exits[0].returncode == 0


def test_a_stop_can_be_hurried(bench: Bench) -> None:
    group = bench.start(bench.script(IGNORES_TERM))
    bench.wait_for("up")
    now_s = time.monotonic()
    group.begin_stop(now_s + 600, now_s)

    state = until_gone(group, grace_s=0.0)

    assert state.exits[0].returncode == -signal.SIGKILL


@pytest.mark.parametrize(
    ("then", "grace_s"), [("time.sleep(600)", 2.0), ("sys.exit(0)", 2.0), ("time.sleep(600)", 0.0)]
)
def test_helpers_of_a_worker_are_gone_even_one_that_left_its_session(
    bench: Bench, then: str, grace_s: float
) -> None:
    group = bench.start(bench.script(TWO_HELPERS.format(then=then)))
    wait_until(lambda: bench.out().count("helper") == 2, timeout_s=PATIENCE_S, what="both helpers are up")
    assert len(bench.left()) >= 2

    state = until_gone(group, grace_s=grace_s)

    assert state.phase is GroupPhase.GONE
    assert bench.left() == []


def test_a_helper_that_hides_its_marker_is_found_by_its_session(bench: Bench) -> None:
    helper = "import os, sys; os.execve('/bin/sleep', ['sleep', '600'], dict())"
    script = f"import subprocess, sys\nsubprocess.Popen([sys.executable, '-c', {helper!r}])\nprint('up')"
    group = bench.start(bench.script(script))
    until_exited(group)
    (session,) = group.pids().values()
    wait_until(lambda: "sleep" in names_in(session), timeout_s=PATIENCE_S, what="the helper has become sleep")

    until_gone(group, grace_s=2)

    assert names_in(session) == []


def names_in(session: int) -> list[str]:
    return [each.name for each in tree.snapshot() if each.session == session and each.is_alive]


def test_the_sweep_touches_nobody_else(bench: Bench) -> None:
    other = Bench(bench.directory)
    stranger = other.start(bench.script(IGNORES_TERM, "other.py"))
    other.wait_for("up")
    group = bench.start(bench.command("true"))
    until_exited(group)

    until_gone(group, grace_s=0)

    assert stranger.poll().phase is GroupPhase.RUNNING
    assert until_gone(stranger, grace_s=0).phase is GroupPhase.GONE


def test_stacks_are_dumped_on_demand_and_the_worker_goes_on(bench: Bench) -> None:
    group = bench.start(bench.script(IGNORES_TERM))
    bench.wait_for("up")

    group.dump_stacks()

    wait_until(lambda: 'train.py", line 6' in bench.err(), timeout_s=PATIENCE_S, what="a stack in the log")
    assert group.poll().phase is GroupPhase.RUNNING
    until_gone(group, grace_s=0)


def test_a_command_is_not_asked_for_stacks_that_would_end_it(bench: Bench) -> None:
    group = bench.start(bench.command("sh", "-c", "trap '' TERM; echo up; while :; do sleep 0.1; done"))
    bench.wait_for("up")

    state = until_gone(group, grace_s=1.0)

    assert state.exits[0].returncode == -signal.SIGKILL
    assert os.getpid() not in {each.pid for each in bench.left()}


def test_a_worker_that_another_program_has_replaced_is_not_ended_by_the_signal_for_stacks(
    bench: Bench,
) -> None:
    """As by a launcher in the script: Python's handler of the signal is gone with the Python that had it."""
    shell = "trap '' TERM; echo up; while :; do sleep 0.1; done"
    group = bench.start(bench.script(f"import os\nos.execvp('sh', ['sh', '-c', {shell!r}])"))
    bench.wait_for("up")

    group.dump_stacks()
    state = until_gone(group, grace_s=1.0)

    assert state.exits[0].returncode == -signal.SIGKILL
    assert bench.err() == ""
