"""A node's progress is told at its first step, at each save, soon again, every half minute and at the end."""

from __future__ import annotations

from hpc_elastic.agent.pulse import TELL_EVERY_S, Progress, Pulse, of_ranks
from hpc_elastic.workers.page import RankView


def test_the_first_step_and_each_save_are_told_at_once() -> None:
    pulse = Pulse()

    assert pulse.beat(Progress(), 0.0) is None
    assert pulse.beat(Progress(3), 1.0) == Progress(3)
    assert pulse.beat(Progress(5), 1.5) is None
    assert pulse.beat(Progress(5, 5, 0.5), 1.6) == Progress(5, 5, 0.5)
    assert pulse.beat(Progress(5, 5, 0.5), 100.0) is None


def test_steps_in_between_are_told_soon_and_then_every_half_minute() -> None:
    pulse = Pulse()
    pulse.beat(Progress(0), 0.0)

    told = [step for step in range(1, 130) if pulse.beat(Progress(step), float(step)) is not None]

    assert told[:6] == [1, 3, 7, 15, 31, 61]
    assert told[6] - told[5] == TELL_EVERY_S


def test_at_the_end_of_a_round_all_that_is_new_is_told() -> None:
    pulse = Pulse()
    pulse.beat(Progress(1), 0.0)

    assert pulse.beat(Progress(2), 0.1, is_last=True) == Progress(2)
    assert pulse.beat(Progress(2), 0.2, is_last=True) is None


def test_the_ranks_are_looked_at_once_a_second_from_their_first_step_on() -> None:
    pulse = Pulse()
    assert all(pulse.wants_look(quarter / 4) for quarter in range(-4, 0))
    pulse.beat(Progress(0), -1.0)

    assert [pulse.wants_look(quarter / 4) for quarter in range(12)].count(True) == 3


def test_a_nodes_progress_is_that_of_its_furthest_rank() -> None:
    views = (
        RankView(True, step=4, progress=3, saved_step=2, save_s=0.5, first_step=1),
        RankView(True, step=3, save_s=1.5, first_step=2),
    )

    assert of_ranks(views) == Progress(4, 2, 1.5, 1)
    assert of_ranks((RankView(),)) == Progress()
