"""A record out of reach for a while disturbs nobody; one that is gone ends the run clearly, with 84."""

from __future__ import annotations

import shutil
import signal
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from hpc_elastic.backends.file import FileBackend
from hpc_elastic.errors import BackendRefused, HpcElasticError, RecordLost
from hpc_elastic.exit_codes import ExitCode
from hpc_elastic.rendezvous.membership import Membership
from hpc_elastic.rendezvous.record import Outcome
from hpc_elastic.rendezvous.standing import Seat, Settings
from hpc_elastic.testing.passthrough.faults import MountFaults
from hpc_elastic.testing.passthrough.rehearsal import SETTINGS, START
from tests.integration.agent.agents import STEPPER, agents_in
from tests.integration.filesystem.mounts import CACHING, Pair, two_mounts
from tests.waiting import wait_until

pytestmark = pytest.mark.needs_fuse

QUICK = replace(SETTINGS, heartbeat_s=1.0, max_nodes=2, expected_nodes=2, store_lost_s=2.0)
TIME_S = 60.0
CALM = ("--rdzv-conf", "heartbeat=1,last_call=60,join_window=0.1")


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    with two_mounts(tmp_path, CACHING) as made:
        yield made


def open_members(pair: Pair, settings: Settings = QUICK) -> list[Membership]:
    members = [
        Membership.open(FileBackend(root), START, Seat(f"n{i}", i, f"h{i}", "127.0.0.1", 1), settings)
        for i, root in enumerate(pair.paths("record"))
    ]
    for member in members:
        member.start()
        member.join()
    wait_until(lambda: all(member.standing().round for member in members), TIME_S, "the round has started")
    return members


def close(members: list[Membership]) -> None:
    for member in members:
        member.leave(Outcome.UNSAVED, "the test is over", 1.0)
        member.close()


def errors_of(members: list[Membership]) -> list[HpcElasticError]:
    """What each was told, once all have been."""
    wait_until(lambda: all(one.standing().error for one in members), TIME_S, "all are told")
    return [error for one in members if (error := one.standing().error) is not None]


@pytest.mark.parametrize("name", ["ESTALE", "EIO", "ENOSPC", "EDQUOT"])
def test_beyond_its_budget_the_record_is_lost_with_the_error_and_the_next_move(pair: Pair, name: str) -> None:
    members = open_members(pair)
    pair.change(MountFaults(errors={name: 1.0}))

    errors = errors_of(members)
    close(members)

    assert all(isinstance(error, RecordLost) for error in errors)
    assert {int(error.exit_code) for error in errors} == {int(ExitCode.RECORD_LOST)}
    # An open may fail as the kernel puts it: a name that it looks up is what the server refuses.
    assert all(name in str(error) and "out of reach for" in str(error) for error in errors)


def test_within_its_budget_an_outage_disturbs_nobody(pair: Pair) -> None:
    members = open_members(pair, replace(QUICK, store_lost_s=60.0))
    pair.change(MountFaults(errors={"EIO": 1.0}))
    assert not threading.Event().wait(2.2 * QUICK.liveness_s)
    pair.change(MountFaults())
    for member in members:
        member.mark_done()

    wait_until(lambda: all(one.standing().closed for one in members), TIME_S, "the run goes on to its end")
    standings = [one.standing() for one in members]
    close(members)

    assert [one.error for one in standings] == [None, None]
    assert {one.end.cause.value for one in standings if one.end} == {"success"}


def test_a_start_waits_for_a_server_that_comes_back(pair: Pair) -> None:
    pair.change(MountFaults(errors={"EIO": 1.0}))
    back = threading.Timer(1.0, pair.change, [MountFaults()])
    back.start()

    close(open_members(pair, replace(QUICK, store_lost_s=60.0)))


def test_a_start_without_the_server_is_lost_after_the_budget(pair: Pair) -> None:
    pair.change(MountFaults(errors={"ESTALE": 1.0}))

    with pytest.raises(RecordLost, match="ESTALE"):
        open_members(pair, replace(QUICK, store_lost_s=0.5))


def test_a_directory_where_nothing_excludes_is_refused_with_the_remedy(tmp_path: Path) -> None:
    with two_mounts(tmp_path, MountFaults(is_exclusive=False, has_links=False)) as pair:
        backend = FileBackend(pair.paths("record")[0])
        with pytest.raises(BackendRefused, match=r"cannot hold a run record.*HPC_ELASTIC_HOME"):
            backend.create("rounds/1", b"x")
        assert list((pair.source / "record" / "rounds").iterdir()) == []


def test_agents_end_with_84_when_their_run_directory_is_removed(tmp_path: Path, pair: Pair) -> None:
    (tmp_path / "agents").mkdir()
    with agents_in(tmp_path / "agents") as agents:
        for index, run_dir in enumerate(pair.paths("run")):
            agents.start(index, *CALM, "--run-dir", run_dir, agents.script(STEPPER), nodes="2", count=2)
        wait_until(lambda: list((pair.source / "run").glob("logs/1/1/*.out")), TIME_S, "workers run")
        # Moved away first: what agents write meanwhile would make rmtree fail.
        shutil.rmtree((pair.source / "run").rename(tmp_path / "removed"), ignore_errors=True)

        assert agents.statuses() == {"n0": 84, "n1": 84}
        assert all("no longer there" in agents.console(name) for name in agents.processes)


def test_agents_on_a_directory_that_cannot_be_trusted_end_with_64_and_say_why(tmp_path: Path) -> None:
    (tmp_path / "agents").mkdir()
    with (
        two_mounts(tmp_path, MountFaults(is_exclusive=False, has_links=False)) as pair,
        agents_in(tmp_path / "agents") as agents,
    ):
        agents.start(0, "--run-dir", pair.one.path / "run", agents.script(STEPPER), "3")

        assert agents.statuses() == {"n0": 64}
        assert "HPC_ELASTIC_HOME" in agents.console("n0")


@pytest.mark.parametrize("has_links", [True, False])
def test_agents_on_two_mounts_agree_on_the_stop_and_save(tmp_path: Path, has_links: bool) -> None:
    """Two agents, with workers, a notice to one of them; names are believed for 30 s."""
    (tmp_path / "agents").mkdir()
    with (
        two_mounts(tmp_path, replace(CACHING, has_links=has_links)) as pair,
        agents_in(tmp_path / "agents") as agents,
    ):
        for index, run_dir in enumerate(pair.paths("run")):
            agents.start(index, *CALM, "--run-dir", run_dir, agents.script(STEPPER), nodes="2", count=2)
        outputs = [pair.source / "run" / "logs" / "1" / "1" / f"{rank}.out" for rank in (0, 1)]
        wait_until(
            lambda: all(path.exists() and "step" in path.read_text() for path in outputs),
            TIME_S,
            "both workers count",
        )
        agents.signal("n1", signal.SIGUSR2)

        assert agents.statuses() == {"n0": 80, "n1": 80}
        saved = {path.read_text() for path in (pair.source / "run" / "checkpoints").glob("*.step")}
        assert len(saved) == 1
