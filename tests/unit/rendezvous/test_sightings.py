"""A node's beat is looked at when it should have risen, and its silence is noticed when it is long enough."""

from __future__ import annotations

import random

import pytest

from hpc_elastic.rendezvous.record import NodeState, Presence
from hpc_elastic.rendezvous.seen import Sighting
from hpc_elastic.rendezvous.sightings import Sightings, next_read_s
from hpc_elastic.rendezvous.standing import Settings
from hpc_elastic.values import replace
from tests.unit.rendezvous.worlds import RULES, presence

BEAT_S, LIVENESS_S = RULES.heartbeat_s, RULES.liveness_s
RUNS = presence("b", NodeState.CONFIRMED, beat=1)


class Watch:
    """A reader that looks when it should, at a writer that beats once in `beat_s` until it dies."""

    def __init__(self, *, begins_s: float, dies_s: float, slack_s: float, settings: Settings = RULES) -> None:
        self.dies_s = dies_s
        self.reads = 0
        self._begins_s = begins_s
        self._period_s = settings.heartbeat_s + slack_s
        self._sightings = Sightings(settings)
        self._settings = settings
        self.seen = self._look(None, 0.0)

    def until(self, at_s: float) -> Sighting:
        """What it has seen up to then."""
        while (due_s := next_read_s(self.seen, self._settings)) <= at_s:
            self.seen = self._look(self.seen, due_s)
        return self.seen

    def until_silent(self) -> float:
        """When it notices."""
        while not self.seen.is_silent(self._settings.liveness_s):
            self.until(next_read_s(self.seen, self._settings))
        return self.seen.read_at_s

    def _look(self, old: Sighting | None, now_s: float) -> Sighting:
        self.reads += 1
        return self._sightings.of(old, self._written(now_s), now_s, has_listed=True)

    def _written(self, now_s: float) -> Presence:
        beats = int((min(now_s, self.dies_s) - self._begins_s) // self._period_s)
        return replace(RUNS, beat=10 + beats)


@pytest.mark.parametrize("seed", range(20))
def test_a_death_is_noticed_within_the_liveness_time_and_a_fraction_of_a_heartbeat(seed: int) -> None:
    chance = random.Random(seed)
    begins_s, slack_s = -chance.uniform(0, BEAT_S), chance.uniform(0.0, 0.02 * BEAT_S)
    dies_s = chance.uniform(6 * BEAT_S, 30 * BEAT_S)
    watch = Watch(begins_s=begins_s, dies_s=dies_s, slack_s=slack_s)

    noticed_s = watch.until_silent()

    assert dies_s + LIVENESS_S - 1.1 * BEAT_S < noticed_s < dies_s + LIVENESS_S + 0.2 * BEAT_S


@pytest.mark.parametrize("seed", range(5))
def test_watching_takes_little_more_than_one_look_for_each_beat(seed: int) -> None:
    chance = random.Random(seed)
    watch = Watch(begins_s=-chance.uniform(0, BEAT_S), dies_s=1e9, slack_s=chance.uniform(0, 0.01 * BEAT_S))

    watch.until(400 * BEAT_S)

    assert watch.reads < 1.25 * 400


def test_a_beat_that_comes_with_news_tells_nothing_of_the_rhythm() -> None:
    sightings = Sightings(RULES)
    first = replace(sightings.of(None, RUNS, 0.0, has_listed=True), late_s=0.0)

    second = sightings.of(first, replace(RUNS, beat=2, state=NodeState.DONE), 4.0, has_listed=True)

    assert second.late_s == 4.0


def test_who_has_left_or_is_silent_is_looked_at_once_in_a_heartbeat() -> None:
    left = Sighting(replace(RUNS, state=NodeState.LEFT), 90.0, 100.0, 0.0)
    silent = Sighting(RUNS, 100.0 - LIVENESS_S - 1.0, 100.0, 0.0)

    assert next_read_s(left, RULES) == 100.0 + BEAT_S
    assert next_read_s(silent, RULES) == 100.0 + BEAT_S
