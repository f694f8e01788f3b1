"""The shared page, both sides of it in one process."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hpc_elastic.workers.page import SETTLE_S, Page, PageUnusable, RankView, WorkerPage


@pytest.fixture
def page() -> Iterator[Page]:
    page = Page.create(3)
    yield page
    page.close()


def test_a_fresh_page_has_no_notice_and_no_steps(page: Page) -> None:
    rank = WorkerPage.attach(page.env_value(), 0)

    assert not rank.is_noticed()
    assert rank.stop_step() is None
    assert page.rank(1) == RankView()
    assert page.highest_step() == -1


def test_a_page_without_ranks_has_no_highest_step(page: Page) -> None:
    assert page.highest_step() is None


def test_the_agent_sees_what_each_rank_writes_and_nobody_elses(page: Page) -> None:
    first, last = WorkerPage.attach(page.env_value(), 0), WorkerPage.attach(page.env_value(), 2)

    first.begin_step(7)
    last.begin_step(8)
    last.write_progress(7)
    last.write_saved(8, 1.5)
    last.write_leaving()

    assert page.rank(0) == RankView(attached=True, step=7, signs=1, first_step=7)
    assert page.rank(1) == RankView()
    assert page.rank(2) == RankView(
        True, step=8, progress=7, saved_step=8, save_s=1.5, leaving=True, signs=3, first_step=8
    )
    assert page.highest_step() == 8


def test_a_rank_sees_the_notice_at_its_next_step(page: Page) -> None:
    rank = WorkerPage.attach(page.env_value(), 1)
    before = rank.begin_step(4)

    page.raise_notice("preempted", deadline_monotonic_s=1234.5)

    assert (before, rank.begin_step(5)) == (False, True)
    assert rank.reason() == "preempted"
    assert rank.deadline_monotonic_s() == 1234.5


def test_a_notice_can_be_bettered(page: Page) -> None:
    rank = WorkerPage.attach(page.env_value(), 0)
    page.raise_notice("unknown", deadline_monotonic_s=10.0)

    page.raise_notice("time limit", deadline_monotonic_s=70.0)

    assert (rank.reason(), rank.deadline_monotonic_s()) == ("time limit", 70.0)


def test_a_long_reason_is_cut_between_characters(page: Page) -> None:
    rank = WorkerPage.attach(page.env_value(), 0)

    page.raise_notice("é" * 1000, deadline_monotonic_s=10.0)

    assert rank.reason() == "é" * 64


def test_the_stop_step_is_never_negative(page: Page) -> None:
    rank = WorkerPage.attach(page.env_value(), 0)

    page.set_stop_step(-1)

    assert rank.stop_step() == 0


def test_counting_after_a_notice_waits_until_every_store_is_visible(page: Page) -> None:
    WorkerPage.attach(page.env_value(), 0)
    before_s = time.monotonic()
    page.raise_notice("preempted", deadline_monotonic_s=10.0)

    page.highest_step()

    assert time.monotonic() - before_s >= SETTLE_S * 0.9


def test_a_closed_descriptor_is_replaced_by_the_path(page: Page) -> None:
    value = f"987:/proc/{os.getpid()}/fd/{page.fd}"

    WorkerPage.attach(value, 1).begin_step(3)

    assert page.rank(1).step == 3


def test_a_descriptor_that_is_another_file_is_replaced_by_the_path(page: Page, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_bytes(b"x" * 4096)
    with open(other, "r+b") as file:
        WorkerPage.attach(f"{file.fileno()}:/proc/{os.getpid()}/fd/{page.fd}", 1).begin_step(3)

    assert page.rank(1).step == 3
    assert other.read_bytes() == b"x" * 4096


@pytest.mark.parametrize("value", ["", "x", "12", "x:/proc", "987:/nowhere", "987:/dev/null"])
def test_a_page_that_cannot_be_reached_is_named(value: str) -> None:
    with pytest.raises(PageUnusable, match=r"descriptor|HPC_ELASTIC_PAGE"):
        WorkerPage.attach(value, 0)


def test_a_slot_outside_the_page_is_refused(page: Page) -> None:
    with pytest.raises(PageUnusable, match="LOCAL_SLOT=3 is not on a page of 3"):
        WorkerPage.attach(page.env_value(), 3)
    with pytest.raises(IndexError):
        page.rank(3)
    with pytest.raises(ValueError, match="not 0"):
        Page.create(0)


def test_a_closed_page_leaves_no_descriptor() -> None:
    before = set(Path("/proc/self/fd").iterdir())

    for _ in range(20):
        page = Page.create(2)
        page.close()
        page.close()

    # What earlier tests have left open may be collected meanwhile.
    assert set(Path("/proc/self/fd").iterdir()) <= before


def test_a_rank_keeps_its_page_when_the_agent_has_closed_it() -> None:
    page = Page.create(1)
    rank = WorkerPage.attach(page.env_value(), 0)
    page.raise_notice("preempted", deadline_monotonic_s=9.0)

    page.close()

    assert rank.begin_step(1)
