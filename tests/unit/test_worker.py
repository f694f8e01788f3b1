"""The context of a training script."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hpc_elastic import worker
from hpc_elastic.worker import Context
from hpc_elastic.workers.page import Page, WorkerPage
from tests.waiting import wait_until


@pytest.fixture
def page() -> Iterator[Page]:
    page = Page.create(2)
    yield page
    page.close()


def context_on(page: Page, slot: int = 0) -> Context:
    return Context(page=WorkerPage.attach(page.env_value(), slot))


def test_without_an_agent_a_script_is_rank_0_of_1_and_is_never_told_to_stop() -> None:
    ctx = worker._read_context({})

    assert (ctx.rank, ctx.world_size, ctx.local_rank, ctx.node_rank) == (0, 1, 0, 0)
    assert (ctx.round, ctx.attempt, ctx.restart_count) == (0, 0, 0)
    assert ctx.notice() is None
    assert not ctx.should_stop(10)
    ctx.progress(10)
    ctx.saved(10)


def test_a_context_that_is_printed_says_which_rank_it_is() -> None:
    shown = repr(Context(rank=3, world_size=8, local_rank=1, attempt=2, run_dir="/runs/x"))

    assert shown.startswith("Context(rank=3, world_size=8, local_rank=1, node_rank=0, round=0, attempt=2,")
    assert shown.endswith("run_dir='/runs/x')")


def test_under_torchrun_its_variables_are_used() -> None:
    ctx = worker._read_context(
        {
            "RANK": "5",
            "WORLD_SIZE": "8",
            "LOCAL_RANK": "1",
            "GROUP_RANK": "2",
            "TORCHELASTIC_RESTART_COUNT": "3",
        }
    )

    assert (ctx.rank, ctx.world_size, ctx.local_rank, ctx.node_rank) == (5, 8, 1, 2)
    assert ctx.restart_count == 3
    assert not ctx.should_stop(0)


def test_under_the_agent_everything_comes_from_its_variables(page: Page, tmp_path: Path) -> None:
    ctx = worker._read_context(
        {
            "RANK": "3",
            "WORLD_SIZE": "4",
            "LOCAL_RANK": "0",
            "HPC_ELASTIC_LOCAL_SLOT": "1",
            "HPC_ELASTIC_PAGE": page.env_value(),
            "HPC_ELASTIC_ROUND": "7",
            "HPC_ELASTIC_ATTEMPT": "2",
            "HPC_ELASTIC_RESTART_COUNT": "1",
            "TORCHELASTIC_RESTART_COUNT": "9",
            "HPC_ELASTIC_RUN_DIR": str(tmp_path),
            "HPC_ELASTIC_CHECKPOINT_DIR": str(tmp_path / "deep" / "checkpoints"),
        }
    )
    ctx.progress(6)

    assert (ctx.round, ctx.attempt, ctx.restart_count) == (7, 2, 1)
    assert ctx.run_dir == tmp_path
    assert ctx.checkpoint_dir == tmp_path / "deep" / "checkpoints"
    assert ctx.checkpoint_dir.is_dir()
    assert (page.rank(0).attached, page.rank(1).attached, page.rank(1).progress) == (False, True, 6)


def test_a_variable_that_is_not_a_number_is_named() -> None:
    with pytest.raises(ValueError, match="environment variable RANK is 'first', not a number"):
        worker._read_context({"RANK": "first"})


def test_a_page_out_of_reach_is_a_warning_and_not_a_failure() -> None:
    with pytest.warns(RuntimeWarning, match="arrives as SIGTERM"):
        ctx = worker._read_context({"HPC_ELASTIC_PAGE": "987:/proc/1/fd/987"})

    assert not ctx.should_stop(1)


def test_a_process_has_one_context() -> None:
    assert worker.context() is worker.context()


def test_a_rank_goes_on_to_the_agreed_step_and_stops_there(page: Page) -> None:
    ctx = context_on(page)
    assert not ctx.should_stop(10)

    page.raise_notice("preempted", time.monotonic() + 600)
    page.set_stop_step(12)

    assert [ctx.should_stop(step) for step in (11, 12, 13)] == [False, True, True]


def test_a_rank_that_was_restarted_from_a_checkpoint_behind_the_others_stops_with_them(page: Page) -> None:
    page.raise_notice("preempted", time.monotonic() + 600)
    page.set_stop_step(42)

    restarted = context_on(page, 1)

    assert [restarted.should_stop(step) for step in (40, 41, 42)] == [False, False, True]


def test_a_rank_waits_for_the_number_once_the_flag_is_up(page: Page) -> None:
    ctx = context_on(page)
    page.raise_notice("preempted", time.monotonic() + 600)
    said: list[bool] = []
    rank = threading.Thread(target=lambda: said.append(ctx.should_stop(5)), daemon=True)
    rank.start()
    wait_until(lambda: page.rank(0).step == 5, timeout_s=60, what="the rank writes its step")
    assert rank.is_alive()

    page.set_stop_step(6)
    rank.join(60)

    assert said == [False]


def test_when_the_time_is_over_and_no_step_is_known_a_rank_stops(page: Page) -> None:
    ctx = context_on(page)

    page.raise_notice("preempted", time.monotonic() + 0.05)

    assert ctx.should_stop(5)


def test_a_notice_tells_why_and_how_long(page: Page) -> None:
    ctx = context_on(page)
    assert ctx.notice() is None

    page.raise_notice("time limit", time.monotonic() + 600)

    notice = ctx.notice()
    assert notice is not None
    assert notice.reason == "time limit"
    assert 500 < notice.seconds_left <= 600


def test_the_time_left_of_a_notice_is_never_negative(page: Page) -> None:
    page.raise_notice("time limit", time.monotonic() - 5)

    assert context_on(page).notice() == ("time limit", 0.0)


def test_a_save_after_the_stop_is_recorded_with_its_duration(page: Page) -> None:
    ctx = context_on(page)
    page.raise_notice("preempted", time.monotonic() + 600)
    page.set_stop_step(0)
    asked_at_s = time.monotonic()
    assert ctx.should_stop(3)
    started_at_s = time.monotonic()

    wait_until(lambda: time.monotonic() > started_at_s + 0.02, timeout_s=5, what="a save that takes time")
    ctx.saved(3)

    view = page.rank(0)
    assert view.saved_step == 3
    assert 0.02 <= view.save_s <= time.monotonic() - asked_at_s


def test_a_save_without_a_stop_has_no_duration(page: Page) -> None:
    context_on(page).saved(3)

    assert (page.rank(0).saved_step, page.rank(0).save_s) == (3, 0.0)


def test_leaving_is_marked_and_ends_the_process_with_status_0(page: Page) -> None:
    with pytest.raises(SystemExit) as left:
        context_on(page).leave()

    assert left.value.code == 0
    assert page.rank(0).leaving


def test_asking_costs_less_than_20_microseconds_while_nothing_is_announced(page: Page) -> None:
    ctx = context_on(page)

    def call_s(calls: int = 1_000) -> float:
        started_at_s = time.perf_counter()
        for step in range(calls):
            ctx.should_stop(step)
        return (time.perf_counter() - started_at_s) / calls

    # Short looks, many of them: whoever shares the processor leaves one of them alone.
    assert min(call_s() for _ in range(100)) < 20e-6


def test_asking_makes_no_descriptor_and_no_file(page: Page) -> None:
    ctx = context_on(page)
    before = set(Path("/proc/self/fd").iterdir())

    for step in range(100):
        ctx.should_stop(step)

    # What earlier tests have left open may be collected meanwhile.
    assert set(Path("/proc/self/fd").iterdir()) <= before
