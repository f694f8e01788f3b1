"""What becomes of workers when their agent does not stop them: killed, or adopting their orphans."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from hpc_elastic.workers import tree
from tests.integration.processes.bench import PATIENCE_S, PYTHON, ROOT, Bench
from tests.waiting import wait_until

WORKER = """
import signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('helper', flush=True); "
subprocess.Popen([sys.executable, "-c", DEAF + "time.sleep(600)"])
subprocess.Popen([sys.executable, "-c", DEAF + "time.sleep(600)"], start_new_session=True)
time.sleep(600)
"""
AGENT = """
import json, os, sys, time
from pathlib import Path
from hpc_elastic.workers import tree
from hpc_elastic.workers.group import WorkerGroup, WorkerStart
from hpc_elastic.workers.guard import Guard
from hpc_elastic.workers.process import Kind, Program

folder, marker, kind, target = Path(sys.argv[1]), sys.argv[2], Kind(sys.argv[3]), sys.argv[4:]
tree.become_subreaper()
guard = Guard.start(marker)
starts = [WorkerStart(n, n, dict(os.environ), folder / f"{n}.out", folder / f"{n}.err") for n in range(2)]
group = WorkerGroup.start(Program(kind, target[0], tuple(target[1:])), starts, marker=marker, guard=guard)
"""
SLEEPS = AGENT + "time.sleep(600)"
WATCHES = (
    AGENT
    + """
import subprocess
own = subprocess.Popen([sys.executable, "-c", "import sys; sys.exit(7)"])
(folder / "own").write_text(str(own.pid))
while not (folder / "over").exists():
    group.poll()
    time.sleep(0.01)
now_s = time.monotonic()
group.begin_stop(now_s + 30, now_s)
while not group.advance(time.monotonic()).is_over:
    time.sleep(0.01)
guard.close()
print(json.dumps([group.poll().phase.value, own.wait()]))
"""
)


def agent(bench: Bench, text: str, *program: str) -> subprocess.Popen[bytes]:
    path = bench.directory / "agent.py"
    path.write_text(text)
    return subprocess.Popen(
        [PYTHON, str(path), str(bench.directory), bench.marker, *program],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
    )


@pytest.mark.parametrize("form", ["script", "shell"])
def test_a_killed_agent_takes_workers_and_all_their_helpers_with_it(bench: Bench, form: str) -> None:
    script = bench.script(WORKER).target
    shell = ["--command", "sh", "-c", f"{PYTHON} {script} & wait"]
    started = agent(bench, SLEEPS, *(["--script", script] if form == "script" else shell))
    for rank in range(2):
        wait_until(
            lambda rank=rank: (
                (bench.directory / f"{rank}.out").exists() and bench.out(rank).count("helper") == 2
            ),  # type: ignore[misc]
            timeout_s=PATIENCE_S,
            what=f"helpers of rank {rank}",
        )
    assert len(bench.left()) >= 6

    started.send_signal(signal.SIGKILL)
    started.communicate()

    wait_until(lambda: not bench.left(), timeout_s=PATIENCE_S, what="workers and helpers are gone")


def test_workers_end_with_their_agent_even_without_a_guard(bench: Bench) -> None:
    script = bench.script("print('up', flush=True)\nimport time; time.sleep(600)").target
    alone = SLEEPS.replace("Guard.start(marker)", "None")
    started = agent(bench, alone, "--script", script)
    wait_until(lambda: len(bench.left()) == 2, timeout_s=PATIENCE_S, what="both workers are up")
    bench.wait_for("up", rank=1)
    bench.wait_for("up", rank=0)

    started.kill()
    started.communicate()

    wait_until(lambda: not bench.left(), timeout_s=PATIENCE_S, what="the workers are gone")


def test_the_guard_of_a_killed_agent_ends_too_and_of_a_stopped_one_waits(bench: Bench) -> None:
    started = agent(bench, SLEEPS, "--script", bench.script(WORKER).target)
    wait_until(lambda: len(guards(bench)) == 1, timeout_s=PATIENCE_S, what="the guard is up")
    for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
        os.kill(guards(bench)[0], signum)
    assert len(guards(bench)) == 1

    started.kill()
    started.communicate()

    wait_until(lambda: not guards(bench), timeout_s=PATIENCE_S, what="the guard has left")


def test_orphans_are_collected_and_an_agents_own_child_is_not(bench: Bench) -> None:
    orphan = "import os, subprocess, sys; subprocess.Popen(['true'], start_new_session=True); os._exit(0)"
    script = (
        f"import subprocess, sys, time\nsubprocess.run([sys.executable, '-c', {orphan!r}])\ntime.sleep(600)"
    )
    started = agent(bench, WATCHES, "--script", bench.script(script).target)
    wait_until((bench.directory / "own").exists, timeout_s=PATIENCE_S, what="the agent is up")
    own = int((bench.directory / "own").read_text())
    wait_until(lambda: state_of(own) == "Z", timeout_s=PATIENCE_S, what="the agent's own child has ended")
    seen_at_s = time.monotonic()
    wait_until(
        lambda: zombies_of(started.pid) == [own] and time.monotonic() > seen_at_s + 1,
        timeout_s=PATIENCE_S,
        what="no zombie but the agent's own child, which subprocess is to collect",
    )

    (bench.directory / "over").touch()

    assert json.loads(started.communicate(timeout=PATIENCE_S)[0]) == ["gone", 7]
    assert bench.left() == []


def guards(bench: Bench) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if bench.marker.encode() in words and any(word.endswith(b"guard.py") for word in words):
            found.append(int(path.parent.name))
    return found


def state_of(pid: int) -> str:
    seen = tree.look_at(pid)
    return seen.state if seen else ""


def zombies_of(parent: int) -> list[int]:
    return [each.pid for each in tree.snapshot() if each.parent == parent and not each.is_alive]
