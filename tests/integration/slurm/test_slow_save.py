"""A save that takes longer than the grace time: said at the start, never at the cost of the one before."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hpc_elastic.rendezvous.record import Outcome, Reason
from hpc_elastic.testing.sandbox.options import SandboxOptions
from tests.integration.slurm.bench import Bench, a_sandbox
from tests.integration.slurm.slow_saves import WARNING, Slow, Speed

pytestmark = [pytest.mark.needs_slurm, pytest.mark.timeout(900)]

# `python -m benchmarks.slow_save` is the long form: 30 s in 20 s, and a job that follows the advice.
# The save is so much longer that it is cut off also where what cuts it off is some seconds late.
SPEED = Speed(grace_s=5, save_s=16)


@pytest.fixture(scope="module")
def slow() -> Iterator[Slow]:
    with a_sandbox(SandboxOptions(nodes=3, grace_s=SPEED.grace_s)) as sandbox:
        yield Slow.run(Bench(sandbox, sandbox.user_directory()), SPEED)


def test_the_second_start_says_that_the_save_does_not_fit_and_how_often_to_save(slow: Slow) -> None:
    first, _, second = slow.agreed.bench.output(slow.agreed.job).partition("start 1,")

    assert WARNING.search(first) is not None, "it is said before the agents start"
    assert not WARNING.search(first.partition("start 0,")[0]), "nothing is known at the first start"
    took_s, apart_s = map(int, WARNING.search(first).groups())  # type: ignore[union-attr]
    assert took_s >= SPEED.save_s
    assert apart_s == pytest.approx(10 * took_s, abs=10)
    assert second


def test_a_save_that_is_cut_off_leaves_the_one_before_to_go_on_from(slow: Slow) -> None:
    lives = slow.agreed
    kept = lives.saved_in(1)

    assert lives.start_of(2) == lives.start_of(3) == f"starts at {kept + 1}, whole"
    assert lives.text(2).rstrip().endswith("saves"), "it was cut off in the middle"
    outcomes = {one.attempt: one.outcome for one in lives.bench.run(lives.job).presences}
    assert outcomes[2] in (Outcome.UNSAVED, None)
    record = lives.bench.sandbox.job(lives.job)
    assert (record["JobState"], record["Restarts"]) == ("COMPLETED", "2"), lives.bench.output(lives.job)


def test_a_plain_script_whose_save_is_cut_off_goes_on_from_its_own_file(slow: Slow) -> None:
    lives = slow.plain

    assert lives.text(1).rstrip().endswith("saves")
    assert lives.start_of(2) == "starts at 11, whole"
    record = lives.bench.sandbox.job(lives.job)
    assert (record["JobState"], record["Restarts"]) == ("COMPLETED", "1"), lives.bench.output(lives.job)
    assert "workers had not saved when the last preemption ended them" in lives.bench.output(lives.job)


def test_before_the_time_limit_the_same_save_fits(slow: Slow) -> None:
    lives = slow.limited
    told = lives.bench.run(lives.job).attempts[0].why_stopped

    assert told is not None
    assert told.reason is Reason.TIME_LIMIT
    assert lives.start_of(2) == f"starts at {lives.saved_in(1) + 1}, whole"
    assert lives.saved_in(1) > 15, "it saved for the stop"
