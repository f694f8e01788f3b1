"""drain, preempt and cancel for agents that were started by hand and meet in etcd."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hpc_elastic.rendezvous.record import Reason
from hpc_elastic.status import snapshot
from hpc_elastic.testing.etcd_server import EtcdServer
from tests.integration.agent.agents import STEPPER, Agents, agents_in

pytestmark = pytest.mark.needs_etcd

ROOT = Path(__file__).resolve().parents[3]
TIMES = "heartbeat=1,last_call=0.5,join_window=0.1,join_timeout=120"
END_S = 120.0


@pytest.fixture
def agents(tmp_path: Path) -> Iterator[Agents]:
    with agents_in(tmp_path) as made:
        yield made


def order(agents: Agents, *words: str) -> subprocess.CompletedProcess[str]:
    """What a person types at another place, who knows nothing of an etcd."""
    command = [sys.executable, "-m", "hpc_elastic", words[0], str(agents.run_dir), *words[1:]]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=END_S, check=False)


def train_by_hand(agents: Agents, server: EtcdServer, backend: str = "etcd") -> None:
    script = agents.script(STEPPER)
    conf = ",".join([TIMES, *(f"{key}={value}" for key, value in server.settings.items())])
    where = ("--rdzv-backend", backend, "--rdzv-endpoint", server.endpoint, "--rdzv-conf", conf)
    for index in range(2):
        agents.start(index, *where, script, nodes="2", count=2)
    agents.wait_for_world(2)


@pytest.mark.parametrize(
    ("command", "backend", "reason", "told"),
    [
        ("drain", "etcd-v3", Reason.CANCELLED, "the workers save at the next agreed step"),
        ("preempt", "etcd-v2", Reason.USER, "its agents save and leave with status 80"),
        ("cancel", "etcd-v3", Reason.CANCELLED, "they are told to end within 5 s"),
    ],
)
def test_an_order_reaches_agents_through_the_etcd_they_meet_in(
    agents: Agents, etcd_server: EtcdServer, command: str, backend: str, reason: Reason, told: str
) -> None:
    train_by_hand(agents, etcd_server, backend)

    done = order(agents, command, "--json")

    assert done.returncode == 0, done.stderr
    assert told in json.loads(done.stdout)["told"]
    # In five seconds a busy machine may be too slow for a save.
    assert set(agents.statuses().values()) <= ({80, 81} if command == "cancel" else {80})
    (attempt,) = snapshot.read(agents.run_dir).attempts
    assert attempt.notice is not None
    assert attempt.notice.reason is reason


def test_an_order_that_cannot_reach_the_etcd_says_so_and_a_signal_to_one_agent_carries_it_out(
    agents: Agents, make_etcd_server: Callable[..., EtcdServer]
) -> None:
    server = make_etcd_server()
    try:
        train_by_hand(agents, server)
        server.members[0].pause()
        refused = order(agents, "cancel")
        server.members[0].resume()

        assert refused.returncode == 1, refused.stdout
        assert "the order is on record, but the agents meet in etcd, do not look there" in refused.stderr
        assert server.endpoint in refused.stderr
        assert "`kill -USR2 PID`" in refused.stderr
        agents.signal("n1", signal.SIGUSR2)
        assert agents.statuses() == {"n0": 80, "n1": 80}
        attempt = snapshot.read(agents.run_dir).own_attempt
        assert attempt is not None
        assert attempt.why_stopped is not None
        assert attempt.why_stopped.reason is Reason.CANCELLED
    finally:
        server.stop()
