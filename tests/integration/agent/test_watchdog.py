"""Ranks that do not go on, and scopes that expire: found, dumped, ended, and said; and no false alarm."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from hpc_elastic.rendezvous.record import Cause
from hpc_elastic.status import render, snapshot
from tests.integration.agent.agents import PATIENCE_S, Agents, agents_in
from tests.integration.agent.api_agents import make, run_all
from tests.integration.agent.test_ways_to_end import rows
from tests.waiting import wait_until

T_S: Final = "5"
WATCHED: Final = ("--watchdog-timeout", T_S, "--watchdog-first-step", "120", "--max-restarts", "1")

# Tells its steps. In the first round it does what is given: before step 5, but rank 0 of two a step later. To
# `follow`, it goes on until rank 1 is `here`: which of them starts first is not for us to say.
STEPS: Final = """
import os, pathlib, signal, time
from hpc_elastic import worker

ctx = worker.context()
print(f"pid {{os.getpid()}}", flush=True)

def hang():
    while True: pass

here = pathlib.Path("rank 1 is here")

def follow():
    while not here.exists():
        time.sleep(0.02)
        ctx.progress(5)

for step in range(10):
    if step == 4 + ctx.world_size - ctx.rank and ctx.round == 1:
        {deed}
    time.sleep(0.02)
    ctx.progress(step)
    ctx.should_stop(step)
print("done", flush=True)
"""

# Tells its steps until there is a file.
GOES_ON: Final = """
import itertools, os, pathlib, time
from hpc_elastic import worker

ctx = worker.context()
print(f"pid {os.getpid()}", flush=True)
for step in itertools.count():
    if pathlib.Path("go").exists():
        break
    time.sleep(0.02)
    ctx.progress(step)
    print(f"step {step}", flush=True)
"""


@pytest.fixture
def agents(tmp_path: Path) -> Iterator[Agents]:
    with agents_in(tmp_path) as made:
        yield made


def failures_told(agents: Agents, name: str) -> list[dict[str, Any]]:
    lines = (agents.run_dir / "events" / f"{name}.jsonl").read_text().splitlines()
    told = [json.loads(line)["metadata"] for line in lines]
    return [each for each in told if each.get("state") == "FAILED"]


def test_an_endless_loop_is_a_failure_of_its_own_cause_whose_line_is_named(agents: Agents) -> None:
    script = agents.script(
        STEPS.format(deed="(here.touch(), hang()) if ctx.rank == 1 else (follow(), time.sleep(600))")
    )

    name = agents.start(0, "--nproc-per-node", "2", *WATCHED, script)

    assert agents.status(name) == 0, agents.console(name)
    line = next(line for line in agents.console(name).splitlines() if "failed: " in line)
    logs = agents.run_dir / "logs" / "1" / "1"
    place = f"{script} line 9 in hang"
    assert f"rank 1 failed: no progress for {T_S} s, step 4 was the last; it is at {place}" in line
    assert f"; stacks of all ranks of its node: {logs}/*.err" in line
    assert "line 9 in hang" in (logs / "1.err").read_text()
    assert f'File "{script}", line' in (logs / "0.err").read_text()
    run = snapshot.read(agents.run_dir)
    first = run.rounds[0]
    assert first.end is not None
    assert first.settled is not None
    assert (first.end.cause, first.settled.cause) == (Cause.NO_PROGRESS, Cause.NO_PROGRESS)
    assert run.rounds[1].proposal.failures == 1
    told = failures_told(agents, name)
    assert told[0]["cause"] == "no progress"
    assert place in told[0]["raw_error"]


def test_a_hang_that_holds_up_ranks_of_other_nodes_costs_one_restart(agents: Agents) -> None:
    script = agents.script(STEPS.format(deed="hang()"))
    for index in (0, 1):
        agents.start(index, *WATCHED, script, nodes="2", count=2)

    assert agents.statuses() == {"n0": 0, "n1": 0}, agents.console("n0") + agents.console("n1")
    run = snapshot.read(agents.run_dir)
    assert run.rounds[0].settled is not None
    assert run.rounds[0].settled.cause is Cause.NO_PROGRESS
    assert [each.proposal.failures for each in run.rounds] == [0, 1]
    consoles = agents.console("n0") + agents.console("n1")
    assert f"it is at {script} line 9 in hang" in consoles


def test_a_run_that_ends_by_it_says_so_in_its_status(agents: Agents) -> None:
    script = agents.script(STEPS.format(deed="hang()"))

    name = agents.start(0, *WATCHED, "--max-restarts", "0", script)

    status, exitcode, cause = rows("more than a script")["no progress"]
    assert agents.status(name) == int(status)
    assert failures_told(agents, name)[0]["exit_code"] == int(exitcode)
    said = f"{cause} {script} line 9 in hang"
    assert f"the run failed: rank 0 on n0 was ended: {said}" in agents.console(name)
    shown = "\n".join(render.lines(snapshot.read(agents.run_dir)))
    assert f"was ended: {said}" in shown
    assert "ended: no progress" in shown


def test_a_stopped_worker_is_found_and_its_state_is_said(agents: Agents) -> None:
    script = agents.script(STEPS.format(deed="os.kill(os.getpid(), signal.SIGSTOP)"))

    name = agents.start(0, *WATCHED, script)

    assert agents.status(name) == 0, agents.console(name)
    assert "it is stopped (state T, as by SIGSTOP), so it could not write its stacks" in agents.console(name)


def test_a_first_step_of_many_times_the_limit_is_no_alarm(agents: Agents) -> None:
    first = "ctx.should_stop(0); time.sleep(9); "
    script = agents.script(STEPS.format(deed="pass").replace("for step", f"{first}\nfor step"))

    name = agents.start(0, "--watchdog-timeout", "3", "--watchdog-first-step", "90", script)

    assert agents.status(name) == 0
    assert agents.output(0, 1)[-1] == "done"
    assert "no progress" not in agents.console(name)


def test_a_first_step_that_never_ends_is_an_alarm_in_its_own_time(agents: Agents) -> None:
    script = agents.script("from hpc_elastic import worker; import time; worker.context(); time.sleep(600)")

    name = agents.start(
        0, "--watchdog-timeout", "0.3", "--watchdog-first-step", "6", "--max-restarts", "0", script
    )

    assert agents.status(name) == 1
    assert f"no first step within 6 s; it is at {script} line 1 in <module>" in agents.console(name)


def test_a_rank_without_a_context_is_judged_by_output_only_if_asked(agents: Agents) -> None:
    script = agents.script("import sys, time; print('begun', flush=True); time.sleep(float(sys.argv[1]))")
    quick = ("--watchdog-timeout", "0.8", "--watchdog-first-step", "0.8", "--max-restarts", "0")
    by_output = ("--watchdog-first-step", "90", "--watchdog-source", "output")

    unasked = agents.start(0, *quick, "--run-dir", agents.folder / "other", script, "3.5")
    asked = agents.start(1, *quick, *by_output, script, "600")

    assert agents.status(unasked) == 0, agents.console(unasked)
    assert agents.status(asked) == 1
    assert f"no output of any rank of its node for 0.8 s; it is at {script} line 1" in agents.console(asked)


def test_a_job_that_was_suspended_as_a_whole_is_no_alarm(agents: Agents) -> None:
    script = agents.script(GOES_ON)
    name = agents.start(0, "--watchdog-timeout", "4", "--max-restarts", "0", script)
    agents.wait_for_line("step 9", 0, 1)
    worker = int(agents.output(0, 1)[0].split()[1])

    agents.signal(name, signal.SIGSTOP)
    os.kill(worker, signal.SIGSTOP)
    stopped_s = time.monotonic()
    wait_until(lambda: time.monotonic() - stopped_s > 10, PATIENCE_S, "the job is suspended for long")
    agents.signal(name, signal.SIGCONT)  # first: it must not see that the worker goes on
    os.kill(worker, signal.SIGCONT)
    (agents.folder / "go").touch()

    assert agents.status(name) == 0, agents.console(name)
    assert "no progress" not in agents.console(name)


def test_a_worker_whose_scope_expires_is_ended_with_a_cause_of_its_own(agents: Agents) -> None:
    script = agents.script(
        STEPS.format(deed="exec('with ctx.expires(after=60):\\n with ctx.expires(after=2):\\n  hang()')")
    )

    name = agents.start(0, "--max-restarts", "0", script)

    status, exitcode, cause = rows("more than a script")["scope expired"]
    assert agents.status(name) == int(status), agents.console(name)
    assert f"rank 0 failed: {cause} {script} line 9 in hang" in agents.console(name)
    end = snapshot.read(agents.run_dir).rounds[0].end
    assert end is not None
    assert (end.cause, end.exit_code) == (Cause.TIMER_EXPIRED, int(exitcode))


def test_an_agent_of_the_api_ends_a_worker_whose_scope_expires_too(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(STEPS.format(deed="ctx.expires(after=2).__enter__(); hang()"))

    (result,) = run_all(make(tmp_path, 0, str(script), max_restarts=0))

    failure = result.failures[0]
    assert failure.exitcode == -9
    assert failure.message.startswith("a scope that was to be left within 2 s has expired; it is at ")
