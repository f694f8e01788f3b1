"""The stop before the time limit, and how seldom the controller is asked for it."""

from __future__ import annotations

import pytest

from hpc_elastic.slurm.job_record import JobRecord
from hpc_elastic.slurm.walltime import LEAD_S, LONGEST_START_S, REFRESH_S, Front, Walltime, lead_s, warning
from tests.unit.slurm.aftermaths import job

HEARTBEAT_S = 5.0


class Rounds:
    """The rounds of a run whose workers take `start_s` to their first step."""

    def __init__(self, start_s: float) -> None:
        self.start_s = start_s
        self.front: Front | None = Front(1, is_settled=False)
        self.learned = 0

    def learn(self) -> float:
        self.learned += 1
        return self.start_s


class Site:
    """A job of `limit_s`, which an administrator may change; `asked` are the times of all questions."""

    def __init__(self, limit_s: float) -> None:
        self.limit_s = limit_s
        self.now_s = 0.0
        self.answers = True
        self.asked: list[float] = []

    def look(self) -> JobRecord | None:
        self.asked.append(self.now_s)
        return self.record() if self.answers else None

    def record(self) -> JobRecord:
        def clock(seconds: float) -> str:
            return f"{int(seconds // 3600):02}:{int(seconds % 3600 // 60):02}:{int(seconds % 60):02}"

        ends = 12 * 3600 + self.limit_s  # the record's job starts at noon
        return job(run=clock(self.now_s), limit=clock(self.limit_s), end=f"2026-03-01T{clock(ends)}")

    def told_at(self, walltime: Walltime, until_s: float) -> float | None:
        while self.now_s < until_s:
            if walltime.left_to_stop(self.now_s) is not None:
                return self.now_s
            self.now_s += HEARTBEAT_S
        return None


def test_workers_are_told_a_minute_before_the_limit_without_any_signal() -> None:
    site = Site(3600.0)
    walltime = Walltime(site.look, 0.0)

    assert site.told_at(walltime, 3600.0) == 3600.0 - LEAD_S
    assert walltime.left_to_stop(site.now_s) == LEAD_S


def test_a_save_that_is_known_to_take_long_begins_earlier() -> None:
    site = Site(3600.0)

    assert site.told_at(Walltime(site.look, 120.0), 3600.0) == 3600.0 - 210.0


def test_half_of_a_short_limit_is_for_training() -> None:
    assert lead_s(0.0, 60.0) == 30.0
    assert lead_s(0.0, None) == LEAD_S


def test_in_hours_of_training_the_controller_is_asked_every_five_minutes_at_most() -> None:
    site = Site(6 * 3600.0)

    site.told_at(Walltime(site.look, 0.0, first=site.record(), read_at_s=0.0), 5 * 3600.0)

    between = [later - sooner for sooner, later in zip(site.asked, site.asked[1:], strict=False)]
    assert min(between) >= REFRESH_S
    assert len(site.asked) == 59


def test_nothing_is_asked_faster_while_the_controller_does_not_answer() -> None:
    site = Site(3600.0)
    site.answers = False

    site.told_at(Walltime(site.look, 0.0), 3000.0)

    assert len(site.asked) == 10


@pytest.mark.parametrize("changed_at_s", [600.0, 3500.0])
def test_a_limit_that_an_administrator_has_extended_is_noticed_also_at_the_last_moment(
    changed_at_s: float,
) -> None:
    site = Site(3600.0)
    walltime = Walltime(site.look, 0.0)

    assert site.told_at(walltime, changed_at_s) is None
    site.limit_s = 7200.0
    assert site.told_at(walltime, 7200.0) == 7200.0 - LEAD_S


def test_a_limit_that_was_shortened_is_noticed_within_minutes() -> None:
    site = Site(7200.0)
    walltime = Walltime(site.look, 0.0)

    site.told_at(walltime, 600.0)
    site.limit_s = 1200.0
    told_at_s = site.told_at(walltime, 1200.0)

    assert told_at_s is not None
    assert told_at_s <= 1200.0 - LEAD_S


def test_the_job_goes_on_by_the_last_record_where_the_controller_is_gone() -> None:
    site = Site(3600.0)
    walltime = Walltime(site.look, 0.0)
    site.told_at(walltime, 1000.0)
    site.answers = False

    assert site.told_at(walltime, 3600.0) == 3600.0 - LEAD_S


def test_a_save_that_does_not_fit_the_grace_time_is_warned_of_with_what_would_help() -> None:
    said = warning(30.0, 20.0)

    assert said is not None
    for words in ("saving took 30 s", "GraceTime=20 s", "every 300 s", "told 75 s ahead"):
        assert words in said
    cut = warning(0.0, 20.0, was_cut=True)
    assert cut is not None
    assert "had not saved when the last preemption ended them" in cut
    assert warning(30.0, 20.0, was_cut=True) == said
    assert warning(0.0, 0.0, was_cut=True) is None
    assert [warning(*known) for known in ((5.0, 20.0), (0.0, 20.0), (30.0, 0.0), (30.0, None))] == [None] * 4


def watched(site: Site, rounds: Rounds) -> Walltime:
    return Walltime(site.look, 0.0, front=lambda: rounds.front, start_s=rounds.learn)


@pytest.mark.parametrize("begins", [Front(2, is_settled=False), Front(1, is_settled=True)])
def test_workers_that_begin_again_too_late_to_come_to_a_step_are_told_at_once(begins: Front) -> None:
    site, rounds = Site(3600.0), Rounds(start_s=120.0)
    walltime = watched(site, rounds)
    assert site.told_at(walltime, 3600.0 - LEAD_S - 60.0) is None, "those that train go on"

    rounds.front = begins

    assert site.told_at(walltime, 3600.0) == 3600.0 - LEAD_S - 60.0


def test_a_pause_before_the_next_round_that_began_before_it_was_too_late_is_one_as_well() -> None:
    site, rounds = Site(3600.0), Rounds(start_s=120.0)
    rounds.front = Front(1, is_settled=True)

    assert site.told_at(watched(site, rounds), 3600.0) == 3600.0 - LEAD_S - 120.0


def test_a_restart_that_pays_off_is_let_be() -> None:
    site, rounds = Site(3600.0), Rounds(start_s=120.0)
    walltime = watched(site, rounds)
    site.told_at(walltime, 3600.0 - LEAD_S - 150.0)
    rounds.front = Front(2, is_settled=False)

    assert site.told_at(walltime, 3600.0) == 3600.0 - LEAD_S


@pytest.mark.parametrize("front", [None, Front(1, is_settled=False)])
def test_the_first_round_of_a_start_is_never_too_late(front: Front | None) -> None:
    site, rounds = Site(3600.0), Rounds(start_s=120.0)
    rounds.front = None
    walltime = watched(site, rounds)
    site.told_at(walltime, 3600.0 - LEAD_S - 100.0)
    rounds.front = front

    assert site.told_at(walltime, 3600.0) == 3600.0 - LEAD_S


def test_half_of_a_short_limit_is_for_training_however_long_the_start_takes() -> None:
    site, rounds = Site(240.0), Rounds(start_s=3600.0)
    rounds.front = Front(1, is_settled=True)

    assert site.told_at(watched(site, rounds), 240.0) == 120.0


def test_the_start_is_learned_once_and_only_near_the_limit() -> None:
    site, rounds = Site(3600.0), Rounds(start_s=1.0)
    walltime = watched(site, rounds)

    site.told_at(walltime, 3600.0 - LEAD_S - LONGEST_START_S)
    assert rounds.learned == 0
    site.told_at(walltime, 3600.0)
    assert rounds.learned == 1


def test_a_limit_that_was_extended_lets_the_next_restart_pay_off() -> None:
    site, rounds = Site(3600.0), Rounds(start_s=120.0)
    walltime = watched(site, rounds)
    site.told_at(walltime, 3600.0 - LEAD_S - 100.0)
    site.limit_s = 7200.0
    rounds.front = Front(2, is_settled=False)

    assert site.told_at(walltime, 7200.0) == 7200.0 - LEAD_S
