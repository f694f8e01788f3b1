"""The agent of a job is killed with SIGKILL: its workers go with it, however Slurm tracks processes."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from hpc_elastic.testing.sandbox.options import PROCESS_TRACKINGS, ProcessTracking, SandboxOptions
from hpc_elastic.workers import tree
from tests.integration.slurm.bench import ROOT, Bench, a_sandbox
from tests.waiting import wait_until

pytestmark = pytest.mark.needs_slurm

# A helper in the worker's group, one in a session of its own, and one that has left its parents as a daemon.
SCRIPT = """
import os, signal, subprocess, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
plain = subprocess.Popen(["sleep", "600"])
apart = subprocess.Popen(["sleep", "600"], start_new_session=True)
daemon = subprocess.run(
    ["sh", "-c", "setsid sleep 600 >/dev/null 2>&1 & echo $!"], stdout=subprocess.PIPE, text=True
).stdout
print("agent", os.getppid(), flush=True)
print("there", os.getpid(), plain.pid, apart.pid, daemon.strip(), flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("proctrack", PROCESS_TRACKINGS)
def test_nothing_of_a_killed_agent_lives_on(proctrack: ProcessTracking) -> None:
    with a_sandbox(SandboxOptions(nodes=1, proctrack=proctrack)) as sandbox:
        bench = Bench(sandbox, sandbox.user_directory(), ROOT)
        script = bench.folder / "worker.py"
        script.write_text(SCRIPT)
        job = bench.submit("-N", "1", "--no-requeue", words=(str(script),))
        said = wait_until(lambda: words_of(bench.run_dir(job)), 180.0, "the worker has begun")
        agent, there = int(said["agent"][0]), [int(pid) for pid in said["there"]]
        assert len(alive(there)) == 4

        os.kill(agent, signal.SIGKILL)

        wait_until(lambda: not alive(there), 30.0, "worker, helpers and daemon are gone")


def alive(pids: list[int]) -> list[int]:
    return [pid for pid in pids if (seen := tree.look_at(pid)) is not None and seen.is_alive]


def words_of(run_dir: Path) -> dict[str, list[str]]:
    """What the worker has said, once it has said everything."""
    path = run_dir / "logs" / "1" / "1" / "0.out"
    lines = path.read_text().splitlines() if path.exists() else []
    found = {words[0]: words[1:] for words in map(str.split, lines) if words}
    return found if "there" in found else {}
