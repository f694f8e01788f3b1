"""A pool on a real Slurm: one run of the elements of an array, each preempted and started again alone."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from hpc_elastic.rendezvous import keys
from hpc_elastic.rendezvous.record import Outcome, Reason
from hpc_elastic.status import snapshot
from tests.integration.slurm.bench import ENDED, Bench
from tests.integration.slurm.pool_bench import Pool
from tests.waiting import wait_until

pytestmark = pytest.mark.needs_slurm


def test_an_element_that_is_preempted_leaves_three_training_and_comes_back_alone_the_first_one_too(
    bench: Bench,
) -> None:
    pool = Pool.submit(bench)
    pool.wait_for_world(4)

    for times, element in enumerate((0, 2), 1):
        pool.lose(element)
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
    pool.wait_for_world(3, 90.0)
    pool.finish()

    assert sum(pool.starts()) == 3
    assert pool.gaps() == []


def test_a_notice_that_only_the_batch_shell_of_an_element_gets_makes_that_element_leave_alone(
    bench: Bench,
) -> None:
    """The one whose plain job id is that of the whole array is the one to get wrong."""
    pool = Pool.submit(bench, size=3)
    pool.wait_for_world(3)
    ids = [pool.element(index)["JobId"] for index in range(3)]
    index = ids.index(pool.array)

    bench.sandbox.run(["scancel", "-b", "--signal=USR2", f"{pool.array}_{index}"], check=True)
    bench.sandbox.wait_for_state(f"{pool.array}_{index}", "PENDING")
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
    wait_until(lambda: len(pool.running()) == 3, 30.0, "the spare runs")

    lost = next(index for index in range(3) if pool.element(index)["NodeList"] in members)
    pool.lose(lost)
    assert {member.name for member in pool.wait_for_world(2).members} != members
    bench.sandbox.wait_for_state(f"{pool.array}_{lost}", "RUNNING")
    pool.finish()

    assert [pool.element(index)["JobState"] for index in range(3)] == ["COMPLETED"] * 3
    assert sum(pool.starts()) == 1
    assert pool.gaps() == []
    assert [len(one.members) for one in pool.rounds()] == [2, 2]


def test_a_pool_that_is_drained_saves_leaves_and_stays_away_with_what_still_waits(bench: Bench) -> None:
    pool = Pool.submit(bench, size=3, throttle="%2")
    pool.wait_for_world(2)

    words = [sys.executable, "-m", "hpc_elastic", "drain", str(bench.run_dir(pool.array))]
    bench.sandbox.run(words, cwd=bench.folder, env=bench.variables, check=True)
    for index in range(3):
        bench.sandbox.wait_for_state(f"{pool.array}_{index}", ENDED)

    assert pool.starts() == [0, 0, 0]
    outcomes = [one.outcome for one in pool.record().presences]
    assert outcomes == [Outcome.SAVED, Outcome.SAVED]


def test_an_element_hands_over_long_before_its_time_limit_while_the_others_go_on(bench: Bench) -> None:
    """With three minutes the first one goes after 18 s, and the next one has to wait until it is back.

    `benchmarks.pools` has the relay over many limits.
    """
    pool = Pool.submit(bench, "--time=3", "--signal=USR2@5", least=3)
    first = pool.wait_for_world(4)

    pool.wait_for_world(3)
    attempt = pool.record().attempt(keys.attempt_of(first.members[0].node))
    assert attempt is not None
    assert attempt.why_stopped is not None
    assert attempt.why_stopped.reason is Reason.TIME_LIMIT
    index = int(attempt.start.array_task)
    wait_until(lambda: pool.element(index)["Restarts"] == "1", 30.0, "it is requeued")
    pool.wait_for_world(4)
    pool.finish()

    assert pool.gaps() == []
    assert len([one for one in pool.rounds() if len(one.members) < 3]) == 0


def test_a_submitted_pool_survives_the_loss_of_an_element_and_gives_back_the_values_of_all_ranks(
    bench: Bench,
) -> None:
    run_dir = bench.folder / "pool"
    options = {"nodes": "2:3", "pool": True, "nproc_per_node": 1, "slurm": {"cpus_per_task": 2}}
    array = submitter(bench, "submit", run_dir, json.dumps(options), "train", "90")
    wait_until(lambda: len(snapshot.read(run_dir).rounds) == 1, 30.0, "the first round")
    first = f"{array}_0"
    bench.sandbox.wait_for_state(first, "RUNNING")
    bench.sandbox.preempt(first, seconds=1)
    bench.sandbox.wait_for_state(first, "PENDING")

    assert submitter(bench, "wait", run_dir, "60") == "COMPLETED"
    results = submitter(bench, "results", run_dir, "5")

    assert len(results) in (2, 3)
    assert all(each["took"] == list(range(90)) for each in results.values())
    assert bench.sandbox.job(f"{array}_1")["Restarts"] == "0"


def submitter(bench: Bench, command: str, run_dir: Path, *words: str) -> Any:
    """What a user's program on the login node prints, as a value."""
    program = [sys.executable, "-m", "tests.integration.slurm.submitter", command, str(run_dir), *words]
    done = bench.sandbox.run(program, cwd=bench.folder, env=bench.variables, check=True, timeout_s=90.0)
    return json.loads(done.stdout.splitlines()[-1])
