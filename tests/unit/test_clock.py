"""Waits that a machine that stands still does not use up."""

from __future__ import annotations

from hpc_elastic.clock import SLICES, wait_in_slices


def test_a_wait_lasts_as_long_as_it_was_given() -> None:
    waits_s: list[float] = []

    assert not wait_in_slices(waits_s.append, lambda: False, 4.0)
    assert sum(waits_s) == 4.0


def test_a_machine_that_stands_still_in_a_wait_costs_one_slice_of_it() -> None:
    clock_s = 0.0

    def wait(seconds: float) -> None:
        nonlocal clock_s
        clock_s += 3600.0 if clock_s == 0.0 else seconds

    assert wait_in_slices(wait, lambda: clock_s >= 3600.0 + 1.0, 4.0)


def test_a_wait_for_what_is_over_is_none() -> None:
    waits_s: list[float] = []

    assert wait_in_slices(waits_s.append, lambda: len(waits_s) == SLICES - 1, 4.0)
    assert len(waits_s) == SLICES - 1
    assert wait_in_slices(waits_s.append, lambda: True, 4.0)
    assert len(waits_s) == SLICES - 1
