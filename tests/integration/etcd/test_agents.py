"""Agents that meet in etcd: as over the run directory, and when etcd stops, restarts, or is gone."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hpc_elastic.backends.etcd_client import EtcdClient
from hpc_elastic.status import snapshot
from hpc_elastic.testing.etcd_certificates import Certificates
from hpc_elastic.testing.etcd_server import EtcdServer
from tests.integration.agent.agents import STEPPER, Agents, agents_in
from tests.waiting import wait_until

pytestmark = pytest.mark.needs_etcd

# The last call is for slow machines: all three are in the first round. No round after a loss waits for it.
TIMES = "heartbeat=1,last_call=60,join_window=0.1,join_timeout=120"
# Of 10 ms and more: longer than three heartbeats, after which a node is missed.
MANY_STEPS = 400
MakeServer = Callable[..., EtcdServer]


@pytest.fixture
def agents(tmp_path: Path) -> Iterator[Agents]:
    with agents_in(tmp_path) as made:
        yield made


@pytest.fixture
def own_server(make_etcd_server: MakeServer) -> Iterator[EtcdServer]:
    """A server that the test may treat as it likes."""
    server = make_etcd_server()
    yield server
    server.stop()


def start(
    agents: Agents, server: EtcdServer, index: int, *words: str | Path, nodes: str = "3", times: str = "",
    backend: str = "etcd", restart: int = 0, password: str | None = None, **settings: str,
) -> str:  # fmt: skip
    """The agent of one of three nodes, with the settings of `server`; `settings` take their place."""
    conf = [TIMES, *filter(None, [times]), *(f"{k}={v}" for k, v in {**server.settings, **settings}.items())]
    environment = dict(server.environment)
    if password is not None:
        environment["HPC_ELASTIC_ETCD_PASSWORD"] = password
    where = ("--rdzv-backend", backend, "--rdzv-endpoint", server.endpoint, "--rdzv-conf", ",".join(conf))
    return agents.start(index, *where, *words, nodes=nodes, count=3, restart=restart, environment=environment)


def train(agents: Agents, server: EtcdServer, *, nodes: str = "3", times: str = "") -> None:
    """Until three nodes make steps in their first round."""
    script = agents.script(STEPPER)
    for index in range(3):
        start(agents, server, index, script, nodes=nodes, times=times)
    wait_for_steps(agents, 5, rank=2)


def choice_of(agents: Agents, attempt: int = 1) -> dict[str, object]:
    found: dict[str, object] = json.loads(
        (agents.run_dir / f"record/attempts/{attempt}.backend").read_bytes()
    )
    return found


def steps(agents: Agents, rank: int, round_number: int = 1, attempt: int = 1) -> int:
    return sum(line.startswith("step ") for line in agents.output(rank, round_number, attempt))


def wait_for_steps(agents: Agents, more: int, rank: int = 0, round_number: int = 1) -> None:
    """Until a rank has made that many more steps."""
    before = steps(agents, rank, round_number)
    wait_until(
        lambda: steps(agents, rank, round_number) >= before + more,
        120.0,
        f"{more} more steps of rank {rank}: {[agents.console(name) for name in agents.processes]}",
    )


@pytest.mark.parametrize(
    ("backend", "spoken"), [("etcd", "etcd-v3"), ("etcd-v3", "etcd-v3"), ("etcd-v2", "etcd-v2")]
)
def test_three_nodes_meet_in_etcd_and_leave_their_ledger_in_the_run_directory(
    agents: Agents, etcd_server: EtcdServer, backend: str, spoken: str
) -> None:
    script = agents.script(STEPPER)

    for index in range(3):
        start(agents, etcd_server, index, script, "20", backend=backend)

    assert agents.statuses() == {"n0": 0, "n1": 0, "n2": 0}
    assert [agents.output(rank, 1)[0] for rank in range(3)] == ["world 3 round 1"] * 3
    assert choice_of(agents)["backend"] == spoken
    run = snapshot.read(agents.run_dir)
    assert run.has_succeeded
    assert run.last_round is not None
    assert run.last_round.has_started
    assert run.last_round.end is not None
    assert sorted(str(one.outcome) for one in run.presences) == ["Outcome.DONE"] * 3
    assert "meets in " + spoken in agents.console("n0")


def test_auto_takes_the_etcd_that_answers_and_else_the_run_directory(
    agents: Agents, etcd_server: EtcdServer, own_server: EtcdServer
) -> None:
    script = agents.script("print('ran')")
    # It is asked once, for as long as a heartbeat.
    start(agents, etcd_server, 0, script, nodes="1", backend="auto", times="heartbeat=5")
    assert agents.status("n0") == 0
    own_server.stop()

    agents.job_id = "8"
    start(agents, own_server, 0, "--run-dir", agents.folder / "other", script, nodes="1", backend="auto")

    assert agents.status("n0") == 0
    assert choice_of(agents)["backend"] == "etcd-v3"
    other = json.loads((agents.folder / "other/record/attempts/1.backend").read_bytes())
    assert other["backend"] == "file"
    assert "does not answer" in agents.console("n0")


def test_the_round_goes_on_with_the_others_after_a_killed_member(
    agents: Agents, etcd_server: EtcdServer
) -> None:
    train(agents, etcd_server, nodes="2:3")

    agents.signal("n1", signal.SIGKILL)
    agents.processes.pop("n1").wait()

    wait_for_both(agents)
    run = snapshot.read(agents.run_dir)
    first = run.round(1)
    assert first is not None
    assert first.settled is not None
    assert first.settled.cause.value == "member lost"
    stop_all(agents)


def test_a_paused_etcd_disturbs_no_worker(agents: Agents, own_server: EtcdServer) -> None:
    train(agents, own_server, nodes="2:3")

    own_server.members[0].pause()
    wait_for_steps(agents, 2 * MANY_STEPS)
    own_server.members[0].resume()
    wait_for_steps(agents, MANY_STEPS)

    assert not agents.output(0, 2)
    stop_all(agents)


def test_an_etcd_that_drops_the_lease_after_a_pause_disturbs_no_worker_and_serves_the_next_round(
    agents: Agents, own_server: EtcdServer
) -> None:
    train(agents, own_server, nodes="2:3")

    own_server.members[0].pause()
    wait_for_steps(agents, 100)
    own_server.members[0].resume()
    assert drop_leases(own_server) == 1  # what a server does that stood still for longer than a lease
    wait_for_steps(agents, MANY_STEPS)
    assert not agents.output(0, 2)
    agents.signal("n2", signal.SIGKILL)
    agents.processes.pop("n2").wait()

    wait_for_both(agents)
    stop_all(agents)


def drop_leases(server: EtcdServer) -> int:
    """End all leases, and with them all that they held; how many there were."""
    client = EtcdClient.open(server.address())
    leases = [int(one["ID"]) for one in client.call("/lease/leases", {}).get("leases", ())]
    for lease in leases:
        client.revoke(lease)
    client.close()
    return len(leases)


def test_a_restarted_etcd_disturbs_no_worker_and_serves_the_next_round(
    agents: Agents, own_server: EtcdServer
) -> None:
    train(agents, own_server, nodes="2:3")

    own_server.restart()
    wait_for_steps(agents, MANY_STEPS)
    assert not agents.output(0, 2)
    agents.signal("n2", signal.SIGKILL)
    agents.processes.pop("n2").wait()

    wait_for_both(agents)
    stop_all(agents)


def test_an_etcd_that_is_gone_for_good_ends_the_agents_with_their_own_status(
    agents: Agents, own_server: EtcdServer
) -> None:
    train(agents, own_server, times="store_lost=8")

    own_server.stop()

    assert agents.statuses() == {"n0": 84, "n1": 84, "n2": 84}
    assert "out of reach" in agents.console("n0")
    assert own_server.endpoint in agents.console("n0")


def test_an_etcd_that_was_emptied_under_the_agents_is_a_lost_record(
    agents: Agents, own_server: EtcdServer
) -> None:
    train(agents, own_server)

    own_server.restart(keeps_data=False)

    assert agents.statuses() == {"n0": 84, "n1": 84, "n2": 84}
    assert "lost its data" in agents.console("n0")


def test_a_run_goes_on_with_its_numbers_and_budget_when_etcd_was_emptied_between_attempts(
    agents: Agents, own_server: EtcdServer
) -> None:
    script = agents.script("import os, sys; print(os.environ['TORCHELASTIC_RESTART_COUNT']); sys.exit(3)")
    start(agents, own_server, 0, "--max-restarts", "2", script, nodes="1")
    assert agents.status("n0") == 3
    assert agents.output(0, 3) == ["2"]  # rounds 1 to 3 failed, 4 closed the attempt
    own_server.restart(keeps_data=False)

    start(agents, own_server, 0, "--max-restarts", "4", script, nodes="1", restart=1)

    assert agents.status("n0") == 3
    run = snapshot.read(agents.run_dir)
    assert [one.number for one in run.attempts] == [1, 2]
    assert [one.number for one in run.rounds] == [1, 2, 3, 5, 6]
    assert [one.proposal.failures for one in run.rounds] == [0, 1, 2, 3, 4]


def test_a_wrong_password_is_a_clear_error_and_starts_nothing(
    agents: Agents, make_etcd_server: MakeServer
) -> None:
    server = make_etcd_server(user="trainer", password="right")
    script = agents.script("print('ran')")
    start(agents, server, 0, script, nodes="1")
    assert agents.status("n0") == 0

    agents.job_id = "8"
    start(agents, server, 1, "--run-dir", agents.folder / "other", script, nodes="1", password="wrong")

    assert agents.status("n1") == 64
    assert "refuses user 'trainer' with this password" in agents.console("n1")
    assert not (agents.folder / "other/logs").exists()
    server.stop()


def test_a_wrong_authority_is_a_clear_error(agents: Agents, make_etcd_server: MakeServer) -> None:
    server = make_etcd_server(tls=True, client_certificates=True)
    other = Certificates.make(agents.folder / "other-authority")
    script = agents.script("print('ran')")
    start(agents, server, 0, script, nodes="1")
    assert agents.status("n0") == 0

    agents.job_id = "8"
    run_dir = ("--run-dir", agents.folder / "other")
    start(agents, server, 1, *run_dir, script, nodes="1", cacert=str(other.ca))

    assert agents.status("n1") == 64
    assert "does not vouch for" in agents.console("n1")
    assert "cacert" in agents.console("n1")
    server.stop()


def test_a_node_that_was_told_another_backend_fails_and_picks_none(
    agents: Agents, etcd_server: EtcdServer
) -> None:
    script = agents.script(STEPPER)
    start(agents, etcd_server, 0, script, "20", nodes="1")
    assert agents.status("n0") == 0

    agents.start(1, "--rdzv-backend", "file", script, nodes="1")

    assert agents.status("n1") == 64
    assert "meets in etcd-v3" in agents.console("n1")


def test_a_node_that_cannot_reach_the_chosen_etcd_fails_by_name(
    agents: Agents, own_server: EtcdServer
) -> None:
    script = agents.script(STEPPER)
    start(agents, own_server, 0, script, "20", nodes="1")
    assert agents.status("n0") == 0
    own_server.stop()

    start(agents, own_server, 1, script, nodes="1", backend="auto", times="join_timeout=1")

    assert agents.status("n1") == 84
    assert "meets in etcd-v3" in agents.console("n1")
    assert "out of reach" in agents.console("n1")


def test_the_leader_of_a_cluster_may_die(agents: Agents, make_etcd_server: MakeServer) -> None:
    server = make_etcd_server(members=3)
    train(agents, server, nodes="2:3")

    server.leader().kill()
    wait_for_steps(agents, MANY_STEPS)
    assert not agents.output(0, 2)
    agents.signal("n2", signal.SIGKILL)
    agents.processes.pop("n2").wait()

    wait_for_both(agents)
    stop_all(agents)
    server.stop()


def wait_for_both(agents: Agents) -> None:
    """Until both ranks of the second round have a context: a worker without one saves nothing."""
    agents.wait_for_line("world 2 round 2", 0, 2)
    agents.wait_for_line("world 2 round 2", 1, 2)


def stop_all(agents: Agents) -> None:
    """End the run as a preemption would."""
    for name in agents.processes:
        agents.signal(name, signal.SIGUSR2)
    statuses = agents.statuses()
    assert set(statuses.values()) == {80}, [agents.console(name) for name in agents.processes]
