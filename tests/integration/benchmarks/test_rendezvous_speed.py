"""The benchmark of the rendezvous, small: it runs, its numbers make sense, and it tells of missed goals."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.comparison import fit, missed_goals, time_ratios
from benchmarks.contenders import CONTENDERS
from benchmarks.gathering import Gathering
from benchmarks.idle import Idle, measure_idle, why_not
from benchmarks.rendezvous import measure

pytestmark = pytest.mark.alone

# Of a start of 8 on a busy machine; about 25 on a quiet one. Reading all the others would be 8 more for each.
MOST_OPERATIONS_OF_A_NODE = 60
# The best of them counts: whatever else the machine does only ever adds to it.
REPETITIONS = 3


def is_quiet_and_quick(idle: Idle) -> bool:
    """A listing of three folders, once a minute, may fall into so short a time: 15 calls at most."""
    return sum(idle.calls.values()) <= 2 * idle.seconds + 15 and idle.notice_s < 10


def gathering(seconds: float, operations: int = 0, failed: str = "") -> Gathering:
    return Gathering(seconds, 0.0, operations, failed)


def test_eight_processes_agree_over_a_directory_with_few_operations(tmp_path: Path) -> None:
    ours = [one for one in CONTENDERS if one.name == "file"]

    found = measure([2, 8], REPETITIONS, ours, tmp_path)["file"]

    assert {one.failed for size in found.values() for one in size} == {""}
    assert 0 < min(one.seconds for one in found[8]) < 20
    assert 8 * 8 < min(one.operations for one in found[8]) < 8 * MOST_OPERATIONS_OF_A_NODE


@pytest.mark.skipif(bool(why_not()), reason=why_not())
def test_an_idle_member_makes_two_calls_a_second_at_most(tmp_path: Path) -> None:
    found = []
    for repetition in range(REPETITIONS):
        place = tmp_path / str(repetition)
        place.mkdir()
        found.append(measure_idle(place, 3, 15.0))
        if is_quiet_and_quick(found[-1]):
            break

    assert any(map(is_quiet_and_quick, found)), found
    assert "statx" in found[-1].calls


def test_ratios_are_of_pairs_that_were_measured_together_and_have_both_met() -> None:
    ours = {2: [gathering(1.0), gathering(3.0), gathering(1.0)], 8: [gathering(1.0)]}
    theirs = {2: [gathering(10.0), gathering(10.0), gathering(0.0, failed="late")], 8: []}

    assert time_ratios(ours, theirs) == {2: 0.2}


def test_operations_that_grow_with_the_square_miss_the_goal() -> None:
    line = {n: [gathering(0.1, 30 * n + 5)] for n in (2, 8, 32, 128)}
    square = {n: [gathering(0.1, n * n)] for n in (2, 8, 32, 128)}

    assert fit(line)["per_node"] == 30
    assert fit(line)["exponent"] == pytest.approx(1.0, abs=0.02)
    assert fit(square)["exponent"] == pytest.approx(2.0)
    assert missed_goals({"file": line}, None) == []
    assert len(missed_goals({"file": square}, None)) == 3


def test_a_slow_start_a_failed_one_and_a_busy_idler_are_told() -> None:
    results = {
        "file": {2: [gathering(1.0, 20)], 8: [gathering(9.0, 80, failed="7 of 8 have met")]},
        "torchrun c10d": {2: [gathering(1.0)], 8: [gathering(1.0)]},
    }

    missed = missed_goals(results, Idle(8, 60.0, {"openat": 180}, {}, 3.0))

    assert len(missed) == 4
    assert "7 of 8 have met" in missed[0]
    assert "1.000 of the time" in missed[1]
