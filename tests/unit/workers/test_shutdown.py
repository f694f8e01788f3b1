"""Ask, wait, insist: the plan alone."""

from __future__ import annotations

import pytest

from hpc_elastic.workers.shutdown import (
    DUMP_BEFORE_KILL_S,
    GIVE_UP_AFTER_KILL_S,
    STRAGGLER_GRACE_S,
    StopPlan,
    StopStep,
    SweepPlan,
)


@pytest.mark.parametrize(
    ("now_s", "due"),
    [
        (100.0, StopStep.WAIT),
        (130.0 - DUMP_BEFORE_KILL_S - 0.01, StopStep.WAIT),
        (130.0 - DUMP_BEFORE_KILL_S, StopStep.DUMP),
        (130.0, StopStep.KILL),
        (130.0 + GIVE_UP_AFTER_KILL_S - 0.01, StopStep.KILL),
        (130.0 + GIVE_UP_AFTER_KILL_S, StopStep.GIVE_UP),
    ],
)
def test_each_step_of_a_stop_has_its_time(now_s: float, due: StopStep) -> None:
    assert StopPlan.by(130.0, now_s=100.0).due(now_s) is due


def test_a_deadline_in_the_past_means_now() -> None:
    assert StopPlan.by(50.0, now_s=100.0).due(100.0) is StopStep.KILL


def test_a_short_stop_leaves_half_of_the_time_before_the_dump() -> None:
    plan = StopPlan.by(100.4, now_s=100.0)

    assert plan.due(100.19) is StopStep.WAIT
    assert plan.due(100.21) is StopStep.DUMP


def test_a_stop_can_be_hurried_and_never_slowed() -> None:
    plan = StopPlan.by(130.0, now_s=100.0)

    assert plan.hurried(110.0, now_s=105.0).kill_at_s == 110.0
    assert plan.hurried(0.0, now_s=105.0).kill_at_s == 105.0
    assert plan.hurried(500.0, now_s=105.0) == plan


def test_the_plan_names_the_next_moment_at_which_something_is_due() -> None:
    plan = StopPlan.by(130.0, now_s=100.0)

    assert plan.next_at_s(100.0) == 130.0 - DUMP_BEFORE_KILL_S
    assert plan.next_at_s(129.9) == 130.0
    assert plan.next_at_s(130.0) == 130.0 + GIVE_UP_AFTER_KILL_S


def test_helpers_left_behind_get_a_short_grace_inside_the_deadline() -> None:
    plan = SweepPlan.after(StopPlan.by(130.0, now_s=100.0), now_s=101.0)

    assert plan.due(101.0) is StopStep.WAIT
    assert plan.due(101.0 + STRAGGLER_GRACE_S) is StopStep.KILL
    assert plan.due(101.0 + STRAGGLER_GRACE_S + GIVE_UP_AFTER_KILL_S) is StopStep.GIVE_UP


def test_helpers_left_behind_get_no_grace_after_the_deadline() -> None:
    plan = SweepPlan.after(StopPlan.by(130.0, now_s=100.0), now_s=131.0)

    assert plan.due(131.0) is StopStep.KILL


def test_a_sweep_can_be_hurried() -> None:
    plan = SweepPlan.after(StopPlan.by(130.0, now_s=100.0), now_s=101.0)

    assert plan.hurried(0.0, now_s=101.2).due(101.2) is StopStep.KILL
