"""A job in `await`, and as a future."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from hpc_elastic.errors import RunCancelled, RunFailed
from hpc_elastic.submission.job import Job
from hpc_elastic.submission.states import Seen, Sight
from tests.unit.submission.run_records import FakeControl, HandClock, RunRecord

GIVE_UP_S = 60


@pytest.fixture
def run(tmp_path: Path) -> RunRecord:
    record = RunRecord(tmp_path / "run")
    record.begin()
    return record


def handle(run: RunRecord, control: FakeControl | None = None) -> Job:
    return Job(run.files, run.submitted(), control or FakeControl(), HandClock())


def test_awaiting_a_job_gives_what_its_function_returned(run: RunRecord) -> None:
    run.returned(0, {"loss": 0.1})
    run.close(succeeded=True)

    async def ask() -> object:
        return await handle(run)

    assert asyncio.run(ask()) == {"loss": 0.1}


def test_awaiting_a_failed_job_raises_what_result_raises(run: RunRecord) -> None:
    run.fail(1, -9)

    async def ask() -> object:
        return await handle(run)

    with pytest.raises(RunFailed, match="rank 1"):
        asyncio.run(ask())


def test_the_event_loop_goes_on_while_a_job_is_awaited(run: RunRecord) -> None:
    ended = threading.Event()

    class Slow(FakeControl):
        def look(self) -> Seen:
            ended.wait(GIVE_UP_S)
            return Seen(Sight.ENDED, "CANCELLED", "job 7", is_settled=True)

    async def both() -> str:
        async def beside() -> None:
            ended.set()

        task = asyncio.create_task(beside())
        with pytest.raises(RunCancelled):
            await handle(run, Slow())
        await task
        return "both done"

    assert asyncio.run(asyncio.wait_for(both(), GIVE_UP_S)) == "both done"


def test_a_callback_is_called_with_the_job_once_it_is_done(run: RunRecord) -> None:
    run.close(succeeded=True)
    job = handle(run)
    called: list[Job] = []
    was_called = threading.Event()

    def note(done: Job) -> None:
        called.append(done)
        was_called.set()

    job.add_done_callback(note)

    assert was_called.wait(GIVE_UP_S)
    assert called == [job]


def test_running_and_cancelled_follow_the_state(run: RunRecord) -> None:
    waiting = FakeControl(Seen(Sight.WAITING, "PENDING", "job 7"))
    assert not handle(run, waiting).running()
    job = handle(run)
    assert (job.running(), job.cancelled()) == (True, False)
    gone = handle(run, FakeControl(Seen(Sight.ENDED, "CANCELLED", "job 7", is_settled=True)))
    assert (gone.running(), gone.cancelled()) == (False, True)
