"""What must not meet: two runs on the same nodes, old and new attempts, a loopback address and a peer."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.agent.agents import STEPPER, Agents, agents_in
from tests.waiting import wait_until

ROOT = Path(__file__).resolve().parents[3]

# Rank 0 serves the name of its run at the port of the master; rank 1 asks for it, and fails at first.
CALLER = """
import os, socket, sys, time
me, port = os.environ["HPC_ELASTIC_RUN_DIR"], int(os.environ["MASTER_PORT"])
address = (os.environ["MASTER_ADDR"], port)
if os.environ["RANK"] == "0":
    with socket.create_server(("", port)) as server:
        peer, _ = server.accept()
        peer.sendall(me.encode())
        peer.close()
else:
    for _ in range(2000):
        try:
            with socket.create_connection(address, timeout=10) as peer:
                print("met", peer.recv(1000).decode(), flush=True)
                break
        except OSError:
            time.sleep(0.01)
    if int(os.environ["TORCHELASTIC_RESTART_COUNT"]) < 3:
        sys.exit(5)
"""


CALM = ("--rdzv-conf", "heartbeat=1,last_call=60,join_window=0.1")
SOON_S = 120.0


@pytest.fixture
def agents(tmp_path: Path) -> Iterator[Agents]:
    with agents_in(tmp_path) as made:
        yield made


def test_two_runs_on_the_same_nodes_at_once_never_mix(tmp_path: Path) -> None:
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
    with agents_in(tmp_path / "one") as one, agents_in(tmp_path / "other") as other:
        other.job_id = "8"
        for index in (0, 1):
            for run in (one, other):
                run.start(index, *CALM, "--same-failures", "0", run.script(CALLER), nodes="2", count=2)

        for run in (one, other):
            assert run.statuses() == {"n0": 0, "n1": 0}
            met = [run.output(1, number) for number in range(1, 5)]
            assert met == [[f"met {run.run_dir}"]] * 4


def test_an_agent_that_was_stopped_over_a_requeue_is_fenced_when_it_goes_on(agents: Agents) -> None:
    script = agents.script(STEPPER)
    for index in (0, 1):
        agents.start(index, *CALM, script, nodes="2", count=2)
    agents.wait_for_world(2)
    agents.signal("n1", signal.SIGSTOP)
    agents.signal("n0", signal.SIGKILL)
    old = agents.processes.pop("n1")
    agents.processes.pop("n0").wait()
    for index in (0, 1):
        agents.start(index, *CALM, script, nodes="2", count=2, restart=1)
    agents.wait_for_line("world 2 round 2", 0, 2, attempt=2)
    agents.wait_for_line("world 2 round 2", 1, 2, attempt=2)

    old.send_signal(signal.SIGCONT)

    wait_until(lambda: old.poll() is not None, SOON_S, "the old agent leaves")
    assert old.returncode in (80, 81)
    assert "attempt 2 of this run has taken over from attempt 1" in agents.console("n1")
    agents.signal("n0", signal.SIGTERM)
    assert agents.statuses() == {"n0": 80, "n1": 80}
    assert not list(agents.run_dir.glob("logs/*/3"))


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("unshare"), reason="needs root and unshare")
def test_a_host_name_that_resolves_to_loopback_is_refused_with_the_remedy(tmp_path: Path) -> None:
    hosts = tmp_path / "hosts"
    hosts.write_text("127.0.0.1 localhost\n127.0.1.1 lonely\n")
    inside = (
        f"mount --bind {hosts} /etc/hosts && hostname lonely && ip link set lo up && "
        f"exec {sys.executable} -m hpc_elastic run --nnodes 2 --run-dir {tmp_path}/run {__file__}"
    )
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(ROOT),
        "HPC_ELASTIC_JOB_ID": "7",
        "HPC_ELASTIC_NODE_NAME": "lonely",
        "HPC_ELASTIC_NODE_INDEX": "0",
        "HPC_ELASTIC_NODE_COUNT": "2",
    }

    ended = subprocess.run(
        ["unshare", "--net", "--mount", "--uts", "sh", "-c", inside],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert ended.returncode == 64, ended.stderr
    assert "no address but loopback is known for lonely" in ended.stderr
    assert "--local-addr" in ended.stderr
    assert not (tmp_path / "run" / "record" / "nodes").exists()
