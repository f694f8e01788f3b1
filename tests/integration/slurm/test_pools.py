"""A pool on a real Slurm: one run of the elements of an array, each preempted and started again alone."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hpc_elastic.rendezvous import keys
from hpc_elastic.rendezvous.record import Outcome, Reason
from hpc_elastic.status import snapshot
from hpc_elastic.testing.sandbox.options import SandboxOptions
from hpc_elastic.testing.sandbox.sandbox import Sandbox
from tests.integration.slurm.bench import ENDED, Bench, a_sandbox
from tests.integration.slurm.pool_bench import PATIENT, Pool
from tests.waiting import wait_until

pytestmark = [pytest.mark.needs_slurm, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Sandbox]:
    """With time to save, and to be told of it, on a machine that has other things to do as well."""
    with a_sandbox(SandboxOptions(grace_s=60, kill_wait_s=30, slurmd_timeout_s=60)) as sandbox:
        yield sandbox


def test_an_element_that_is_preempted_leaves_three_training_and_comes_back_alone_the_first_one_too(
    bench: Bench,
) -> None:
    pool = Pool.submit(bench, run=PATIENT)
    pool.wait_for_world(4)

    for times, element in enumerate((0, 2), 1):
        with pool.without(element):
            pool.wait_for_world(3)
        pool.wait_for_world(4)
        assert sum(pool.starts()) == times, "no other element was started again"
    pool.finish()

    assert pool.starts() == [1, 0, 1, 0]
    assert pool.gaps() == [], "steps without gap or repeat"
    assert [len(one.members) for one in pool.rounds()] == [4, 3, 4, 3, 4]
    assert pool.record().rounds[-1].proposal.failures == 0


def test_elements_that_are_all_preempted_at_once_all_come_back_and_resume_under_a_throttle(
    bench: Bench,
) -> None:
    pool = Pool.submit(bench, throttle="%3", least=3)
    pool.wait_for_world(3)

    pool.lose(*(index for index in range(4) if pool.element(index)["JobState"] == "RUNNING"))
    pool.wait_for_world(3)
    pool.finish()

    assert sum(pool.starts()) == 3
    assert pool.gaps() == []


def test_a_notice_that_only_the_batch_shell_of_an_element_gets_makes_that_element_leave_alone(
    bench: Bench,
) -> None:
    """The one whose plain job id is that of the whole array is the one to get wrong."""
    pool = Pool.submit(bench, size=3, run=PATIENT)
    pool.wait_for_world(3)
    ids = [pool.element(index)["JobId"] for index in range(3)]
    index = ids.index(pool.array)

    bench.sandbox.run(["scancel", "-b", "--signal=USR2", f"{pool.array}_{index}"], check=True)
    pool.wait_for_restart(index)
    pool.wait_for_world(2)
    pool.finish()

    assert [one.notice is not None for one in pool.record().attempts].count(True) == 1
    assert sum(pool.starts()) == 1
    assert pool.output().count("the batch shell got a notice and passes it on") == 1


def test_when_the_run_is_done_elements_that_still_wait_are_taken_out_of_the_queue_by_one(
    bench: Bench,
) -> None:
    pool = Pool.submit(bench, throttle="%3")
    pool.wait_for_world(3)
    waiting = next(index for index in range(4) if pool.element(index)["JobState"] == "PENDING")
    lost = min({0, 1, 2, 3} - {waiting})
    pool.lose(lost)  # it waits as well, and the fourth takes its place
    pool.wait_for_world(3)
    pool.hold(lost)  # else the end of another one could let it start before it is taken out
    pool.finish()

    states = sorted(pool.element(index)["JobState"] for index in range(4))
    assert states == ["CANCELLED", "COMPLETED", "COMPLETED", "COMPLETED"]
    assert pool.element(lost)["JobState"] == "CANCELLED"
    assert pool.output().count("are taken out of the queue") == 1


def test_an_element_more_than_fit_takes_the_place_of_one_that_is_preempted_and_ends_with_the_run(
    bench: Bench,
) -> None:
    pool = Pool.submit(bench, size=3, most=2)
    members = {member.name for member in pool.wait_for_world(2).members}
    wait_until(lambda: len(pool.running()) == 3, 120.0, "the spare runs")

    lost = next(index for index in range(3) if pool.element(index)["NodeList"] in members)
    pool.lose(lost)
    assert {member.name for member in pool.wait_for_world(2).members} != members
    pool.wait_until_runs(lost)
    pool.finish()

    assert [pool.element(index)["JobState"] for index in range(3)] == ["COMPLETED"] * 3
    assert sum(pool.starts()) == 1
    assert pool.gaps() == []
    assert [len(one.members) for one in pool.rounds()] == [2, 2]


def test_a_pool_that_is_drained_saves_leaves_and_stays_away_with_what_still_waits(bench: Bench) -> None:
    pool = Pool.submit(bench, size=3, throttle="%2")
    pool.wait_for_world(2)
    pool.hold(next(index for index in range(3) if pool.element(index)["JobState"] == "PENDING"))

    words = [sys.executable, "-m", "hpc_elastic", "drain", str(bench.run_dir(pool.array))]
    bench.sandbox.run(words, cwd=bench.folder, env=bench.variables, check=True)
    for index in range(3):
        bench.sandbox.wait_for_state(f"{pool.array}_{index}", ENDED, timeout_s=180.0)

    assert pool.starts() == [0, 0, 0]
    outcomes = [one.outcome for one in pool.record().presences]
    assert outcomes == [Outcome.SAVED, Outcome.SAVED]


def test_an_element_hands_over_long_before_its_time_limit_while_the_others_go_on(bench: Bench) -> None:
    """With four minutes the first one goes after 24 s, and the next one has to wait until it is back.

    `benchmarks.pools` has the relay over many limits.
    """
    pool = Pool.submit(bench, "--time=4", "--signal=USR2@5", least=3, run=PATIENT)
    first = pool.wait_for_world(4)

    pool.wait_for_world(3)
    attempt = pool.record().attempt(keys.attempt_of(first.members[0].node))
    assert attempt is not None
    assert attempt.why_stopped is not None
    assert attempt.why_stopped.reason is Reason.TIME_LIMIT
    index = int(attempt.start.array_task)
    pool.wait_for_restart(index)
    pool.wait_for_world(4)
    pool.finish()

    assert pool.gaps() == []
    assert len([one for one in pool.rounds() if len(one.members) < 3]) == 0


def test_a_submitted_pool_survives_the_loss_of_an_element_and_gives_back_the_values_of_all_ranks(
    bench: Bench,
) -> None:
    run_dir = bench.folder / "pool"
    options = {"nodes": "2:3", "pool": True, "nproc_per_node": 1, "slurm": {"cpus_per_task": 2}}
    pool = Pool(bench, submitter(bench, "submit", run_dir, json.dumps(options), "train", "90", "99"), size=3)
    wait_until(lambda: snapshot.read(run_dir).rounds, 120.0, "the first round")
    pool.wait_until_runs(0)
    pool.lose(0)
    (run_dir / "may_end").touch()

    assert submitter(bench, "wait", run_dir, "150") == "COMPLETED"
    results = submitter(bench, "results", run_dir, "150")

    assert len(results) in (2, 3)
    assert all(len(each["took"]) >= 90 for each in results.values())
    assert all(each["took"] == list(range(len(each["took"]))) for each in results.values())
    assert pool.restarts(1) == 0


def submitter(bench: Bench, command: str, run_dir: Path, *words: str) -> Any:
    """What a user's program on the login node prints, as a value."""
    program = [sys.executable, "-m", "tests.integration.slurm.submitter", command, str(run_dir), *words]
    done = bench.sandbox.run(program, cwd=bench.folder, env=bench.variables, check=True, timeout_s=180.0)
    return json.loads(done.stdout.splitlines()[-1])
