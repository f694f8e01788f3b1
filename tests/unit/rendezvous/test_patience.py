"""A record that is out of reach at the start is tried again, and not without a word."""

from __future__ import annotations

import pytest

from hpc_elastic.errors import BackendUnavailable, RecordLost
from hpc_elastic.rendezvous.patience import insist
from tests.unit.submission.run_records import HandClock


class Disk:
    """Full until `tries` have failed."""

    def __init__(self, tries: int) -> None:
        self.tries = tries

    def __call__(self) -> str:
        self.tries -= 1
        if self.tries >= 0:
            raise BackendUnavailable("no space left")
        return "there"


def test_a_short_outage_is_passed_over_in_silence() -> None:
    said: list[str] = []

    assert insist(Disk(2), budget_s=60.0, clock=HandClock(), say=said.append) == "there"
    assert said == []


def test_a_longer_one_is_told_once_with_its_cause() -> None:
    said: list[str] = []

    assert insist(Disk(12), budget_s=60.0, clock=HandClock(), say=said.append) == "there"
    assert said == ["the run record is out of reach, trying for 60 s: no space left"]


def test_after_the_budget_the_record_is_lost() -> None:
    with pytest.raises(RecordLost, match=r"out of reach for .* s: no space left"):
        insist(Disk(1000), budget_s=60.0, clock=HandClock())
