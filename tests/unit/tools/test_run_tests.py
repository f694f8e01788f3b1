"""No green by leaving out: the two parts of `make test` have every test, and a failure of either counts."""

from __future__ import annotations

import pytest

from tools.run_tests import parts, verdict


@pytest.mark.parametrize(
    ("codes", "status"),
    [((0, 0), 0), ((0, 5), 0), ((5, 0), 0), ((5, 5), 5), ((1, 0), 1), ((0, 1), 1), ((5, 3), 3), ((4, 0), 4)],
)
def test_a_failure_of_either_part_counts(codes: tuple[int, ...], status: int) -> None:
    assert verdict(codes) == status


def test_each_test_is_in_one_part() -> None:
    shared, alone = parts(2, ["tests"])

    assert shared == ["-n", "2", "--dist", "loadfile", "-m", "not alone", "tests"]
    assert alone == ["-m", "alone", "tests"]
    assert parts(1, ["tests"])[0] == ["-m", "not alone", "tests"]
