"""Who of a node's ranks does not go on, by a script of looks."""

from __future__ import annotations

from typing import Any, Final

import pytest

from hpc_elastic.agent.overdue import FIRST_SIGNS, Limits, Overdue, Source, Watch
from hpc_elastic.rendezvous.record import Cause
from hpc_elastic.workers.page import RankView

BEGAN_S: Final = 1000.0
LIMITS: Final = Limits(timeout_s=10.0, first_step_s=60.0)
BY_OUTPUT: Final = Limits(timeout_s=10.0, first_step_s=60.0, source=Source.OUTPUT)
GAP_S: Final = 2.0


def at_step(step: int, **more: Any) -> RankView:
    """A rank that has told this step, after all before it."""
    return RankView(attached=True, step=step, signs=step + FIRST_SIGNS, **more)


def in_first_step(signs: int = 0) -> RankView:
    return RankView(attached=True, step=signs - 1, signs=signs)


class Looks:
    """Looks once a second at ranks that show the same all the time, until told otherwise."""

    def __init__(self, limits: Limits | None = LIMITS) -> None:
        self.watch = Watch(limits, BEGAN_S, GAP_S)
        self.now_s = BEGAN_S

    def until(self, after_s: float, *views: RankView, printed: int = 0) -> Overdue | None:
        """What the first look says that is not None, or the last one, `after_s` after the beginning."""
        while self.now_s < BEGAN_S + after_s:
            self.now_s += 1.0
            found = self.watch.look(self.now_s, dict(enumerate(views)), printed)
            if found is not None:
                return found
        return None

    def at(self, after_s: float, *views: RankView) -> Overdue | None:
        """What one look says, after a gap."""
        self.now_s = BEGAN_S + after_s
        return self.watch.look(self.now_s, dict(enumerate(views)))


def test_a_rank_that_tells_no_step_for_the_time_is_overdue() -> None:
    looks = Looks()
    assert looks.until(1, at_step(4), at_step(4)) is None
    assert looks.until(8, at_step(4), at_step(5)) is None
    assert looks.until(11, at_step(4), at_step(6)) is None

    found = looks.until(12, at_step(4), at_step(6))

    assert found == Overdue((0,), Cause.NO_PROGRESS, {0: "no progress for 10 s, step 4 was the last"})


def test_any_call_is_a_sign_even_with_the_same_step() -> None:
    looks = Looks()
    same = at_step(4)
    for second in range(1, 40):
        assert looks.until(second, same._replace(signs=100 + second)) is None


def test_of_several_the_one_that_is_furthest_behind_comes_first() -> None:
    looks = Looks()

    found = looks.until(20, at_step(7), at_step(6), at_step(7))

    assert found is not None
    assert found.slots == (1, 0, 2)


@pytest.mark.parametrize("signs", range(FIRST_SIGNS))
def test_the_first_step_has_its_own_time(signs: int) -> None:
    assert Looks().until(60, in_first_step(signs)) is None

    found = Looks().until(62, in_first_step(signs))

    assert found is not None
    assert found.why[0].startswith("no first step within 60 s" if signs == 0 else "no progress for 60 s")


def test_a_rank_without_a_context_is_not_judged_by_its_steps() -> None:
    assert Looks().until(500, RankView()) is None


def test_a_rank_that_leaves_is_not_judged() -> None:
    assert Looks().until(500, at_step(4, leaving=True)) is None


def test_a_rank_that_leaves_telling_steps_to_others_is_not_judged() -> None:
    looks = Looks()
    for second in range(1, 200):
        assert looks.until(second, at_step(second), in_first_step()) is None


def test_silence_of_all_ranks_is_overdue_where_output_is_the_source() -> None:
    looks = Looks(BY_OUTPUT)
    assert looks.until(8, RankView(), RankView(), printed=1) is None
    assert looks.until(17, RankView(), RankView(), printed=2) is None

    found = looks.until(22, RankView(), RankView(), printed=2)

    why = "no output of any rank of its node for 10 s"
    assert found == Overdue((0, 1), Cause.NO_PROGRESS, {0: why, 1: why})


def test_the_first_output_has_its_own_time() -> None:
    assert Looks(BY_OUTPUT).until(60, RankView()) is None
    assert Looks(BY_OUTPUT).until(62, RankView()) is not None


def test_a_pause_of_the_agent_does_not_count() -> None:
    looks = Looks()
    assert looks.until(5, at_step(4)) is None
    assert (
        looks.at(5000, at_step(4)) is None
    )  # stopped, or the host was suspended; so may the ranks have been
    assert looks.until(5002, at_step(4)) is None

    assert looks.until(5006, at_step(4)) is not None


def test_a_scope_that_has_expired_is_a_cause_of_its_own() -> None:
    looks = Looks(None)
    open_scope = at_step(4, expires_at_s=BEGAN_S + 5.5, expires_after_s=4.0)
    assert looks.until(5, open_scope, at_step(4)) is None

    found = looks.until(6, open_scope, at_step(4))

    why = {0: "a scope that was to be left within 4 s has expired"}
    assert found == Overdue((0,), Cause.TIMER_EXPIRED, why)


def test_a_scope_that_is_left_in_time_is_none() -> None:
    looks = Looks(None)
    for second in range(1, 100):
        assert looks.until(second, at_step(4, expires_at_s=BEGAN_S + second + 2, expires_after_s=3.0)) is None
    assert looks.until(200, at_step(4)) is None


def test_a_scope_that_was_entered_before_a_pause_has_its_time_after_it() -> None:
    looks = Looks(None)
    looks.at(1, at_step(4))
    unseen = at_step(4, expires_at_s=BEGAN_S + 5, expires_after_s=4.0)

    assert looks.at(5000, unseen) is None
    assert looks.until(5001, unseen) is None
    assert looks.until(5008, unseen) is not None


def test_without_limits_nothing_but_scopes_is_watched() -> None:
    assert Looks(None).until(5000, at_step(4), in_first_step(), RankView()) is None
