"""The handle: what it tells, waits for, returns and raises, from a run directory and a cluster."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from hpc_elastic.errors import RunCancelled, RunFailed, UsageError, WaitTimedOut
from hpc_elastic.rendezvous import keys, record
from hpc_elastic.rendezvous.sequels import Continued, StaysAway
from hpc_elastic.slurm.commands import Answer
from hpc_elastic.status import snapshot
from hpc_elastic.submission.job import Job
from hpc_elastic.submission.outcome import RemoteTraceback
from hpc_elastic.submission.states import JobState, Seen, Sight
from hpc_elastic.workers import payload
from tests.unit.submission.run_records import NOW, FakeControl, HandClock, RunRecord

RUNNING = Seen(Sight.ACTIVE, "RUNNING", "job 7")
CANCELLED = Seen(Sight.ENDED, "CANCELLED", "job 7")


class Odd(Exception):
    """An exception that cannot be made again from its arguments."""

    def __init__(self, *, value: int) -> None:
        super().__init__(f"odd {value}")


@pytest.fixture
def run(tmp_path: Path) -> RunRecord:
    record = RunRecord(tmp_path)
    record.begin()
    return record


def job(run: RunRecord, *shown: Seen, calls_function: bool = True) -> tuple[Job, FakeControl]:
    control = FakeControl(*shown)
    about = run.submitted(calls_function=calls_function)
    return Job(run.files, about, control, HandClock()), control


def test_a_cancel_ends_the_jobs_that_join_the_run_too(run: RunRecord) -> None:
    asked: list[str] = []

    def slurm(command: Sequence[str], timeout_s: float) -> Answer:
        asked.append(" ".join(command))
        return Answer(tuple(command), 0)

    run.files.guests.mkdir(parents=True)
    (run.files.guests / "12").touch()
    control = FakeControl(RUNNING)
    Job(run.files, run.submitted(), control, HandClock(), slurm).cancel()

    assert control.asked == ["cancel"]
    assert asked == ["scancel 12"]


def raised(run: RunRecord, rank: int, error: Exception, text: str = "Traceback: line 3") -> None:
    """What `call` leaves for an exception on `rank`."""
    where = run.files.exception(1, 1, rank)
    payload.write(where, payload.pack_value(error))
    kind = type(error)
    report = {"message": f"{kind.__name__}: {error}", "type": f"{kind.__module__}.{kind.__qualname__}"}
    where.with_suffix(".json").write_text(json.dumps({**report, "traceback": text}))


def test_the_job_that_the_record_names_last_is_asked_about(run: RunRecord) -> None:
    handle, control = job(run)
    start = record.Attempt(2, "slurm", "8", "", 0, NOW, (), "w")
    guest = record.Attempt(3, "slurm", "9", "", 0, NOW, (), "w", share=record.GUESTS)

    assert handle.state is JobState.RUNNING
    run.create(keys.attempt_key(2), start)
    run.create(keys.attempt_key(3), guest)
    assert handle.state is JobState.RUNNING

    assert control.jobs == ("8",)


def test_results_are_those_of_the_round_that_succeeded(run: RunRecord) -> None:
    handle, _ = job(run)
    run.returned(0, "zero")
    run.returned(1, {"one": 1})
    run.returned(0, "of an earlier round", round_number=9)
    run.close(succeeded=True)

    assert handle.wait() is JobState.COMPLETED
    assert handle.result() == "zero"
    assert handle.results() == {0: "zero", 1: {"one": 1}}
    assert handle.exception() is None
    assert handle.done()


def test_a_script_has_no_value(run: RunRecord) -> None:
    handle, _ = job(run, calls_function=False)
    run.close(succeeded=True)

    assert handle.result() is None
    assert handle.results() == {0: None, 1: None}


def test_the_exception_of_the_root_cause_is_raised_with_the_remote_traceback(run: RunRecord) -> None:
    handle, _ = job(run)
    raised(run, 0, ValueError("a consequence"))
    raised(run, 1, KeyError("the cause"), "Traceback of rank 1")
    run.fail(1, 1)

    with pytest.raises(KeyError, match="the cause") as failure:
        handle.result()

    assert isinstance(failure.value.__cause__, RemoteTraceback)
    assert "rank 1 on n2, round 1:\nTraceback of rank 1" in str(failure.value.__cause__)
    assert isinstance(handle.exception(), KeyError)


def test_an_exception_that_cannot_travel_is_told_in_words(run: RunRecord) -> None:
    handle, _ = job(run)
    raised(run, 1, RuntimeError("x"))
    where = run.files.exception(1, 1, 1)
    where.write_bytes(payload.pack_value(Odd(value=3)).replace(b"Odd", b"Od2"))
    run.fail(1, 1)

    with pytest.raises(RunFailed, match="rank 1 on n2, round 1: RuntimeError: x"):
        handle.result()


def test_an_exception_left_by_somebody_else_is_not_taken_for_it(run: RunRecord) -> None:
    handle, _ = job(run)
    raised(run, 1, ValueError("handled long ago"))
    report = {"message": "SystemExit: bad", "type": "SystemExit", "traceback": ""}
    run.files.exception(1, 1, 1).with_suffix(".json").write_text(json.dumps(report))
    run.fail(1, 1)

    with pytest.raises(RunFailed, match="SystemExit: bad"):
        handle.result()


def test_a_rank_that_was_killed_is_named_with_its_signal_and_its_log(run: RunRecord) -> None:
    handle, _ = job(run)
    run.fail(1, -9)

    with pytest.raises(RunFailed, match=r"rank 1 on n2, round 1 killed by SIGKILL .*/logs/1/1/1\.err"):
        handle.result()


def test_a_cancelled_run_raises_that_it_was_cancelled(run: RunRecord) -> None:
    handle, _ = job(run, CANCELLED)

    with pytest.raises(RunCancelled, match="the run was cancelled"):
        handle.result()
    assert isinstance(handle.exception(), RunCancelled)


def test_the_job_that_goes_on_in_its_place_is_followed(run: RunRecord) -> None:
    handle, control = job(run, Seen(Sight.WAITING, "PENDING", "job 8"))
    run.create(keys.continuation_key(1, "7", 0), Continued(1, "7", 0, "8", NOW, "w"))

    assert handle.state is JobState.REQUEUED
    assert control.jobs == ("8",)
    assert (handle.job_id, handle.status().job_id) == ("7", "8")


def test_an_end_that_another_job_turns_round_is_none(run: RunRecord) -> None:
    """The record says so by the time the end can be seen."""

    class Turns(FakeControl):
        def look(self) -> Seen:
            if self.jobs == ("8",):
                return Seen(Sight.WAITING, "PENDING", "job 8")
            run.create(keys.continuation_key(1, "7", 0), Continued(1, "7", 0, "8", NOW, "w"))
            return Seen(Sight.ENDED, "PREEMPTED", "job 7", is_settled=True)

    handle = Job(run.files, run.submitted(), Turns(), HandClock())

    assert handle.state is JobState.REQUEUED


def test_a_cancel_says_so_in_the_record_for_a_batch_side_that_is_about_to_bring_the_job_back(
    run: RunRecord,
) -> None:
    handle, control = job(run, RUNNING)

    handle.cancel()

    assert control.asked == ["cancel"]
    away = snapshot.read(run.files.run_dir).attempts[0].stays_away
    assert away is not None
    assert away.is_cancelled
    control.shown = [Seen(Sight.ENDED, "PREEMPTED", "job 7", is_settled=True)]
    assert handle.state is JobState.CANCELLED


def test_why_nothing_comes_back_is_told(run: RunRecord) -> None:
    handle, _ = job(run, Seen(Sight.ENDED, "PREEMPTED", "job 7", is_settled=True))
    run.create(keys.stays_away_key(1), StaysAway(1, "no sbatch here", False, NOW, "w"))

    assert handle.status().why == "job 7: PREEMPTED; no sbatch here"


def test_an_end_without_one_in_the_record_says_what_is_known(run: RunRecord) -> None:
    handle, _ = job(run, Seen(Sight.ENDED, "COMPLETED", "job 7", is_settled=True))

    with pytest.raises(RunFailed, match="ended FAILED: job 7: COMPLETED, and the record has no end; see"):
        handle.result()


def test_a_rank_that_ended_its_process_itself_has_no_value(run: RunRecord) -> None:
    handle, _ = job(run)
    run.returned(0, 0)
    run.close(succeeded=True)

    assert handle.result() == 0
    with pytest.raises(RunFailed, match="rank 1 ended with status 0 but did not return"):
        handle.results()


def test_waiting_ends_with_the_time_given_and_the_run_goes_on(run: RunRecord) -> None:
    handle, _ = job(run)

    with pytest.raises(WaitTimedOut, match="the run is RUNNING after 5 s"):
        handle.wait(timeout=5)
    with pytest.raises(TimeoutError):
        handle.result(timeout=0)


def test_waiting_survives_a_requeue(run: RunRecord) -> None:
    waiting = Seen(Sight.WAITING, "PENDING", "job 7")
    just_ended = Seen(Sight.ENDED, "PREEMPTED", "job 7")
    handle, _ = job(run, RUNNING, just_ended, waiting, RUNNING, CANCELLED)

    passing = [handle.state for _ in range(3)]

    assert passing == [JobState.RUNNING, JobState.UNKNOWN, JobState.REQUEUED]
    assert handle.wait() is JobState.CANCELLED


def test_a_finished_job_is_not_cancelled_and_cannot_be_preempted(run: RunRecord) -> None:
    handle, control = job(run)
    handle.cancel()
    handle.preempt()
    assert control.asked == ["cancel", "preempt"]

    run.close(succeeded=True)

    handle.cancel()
    with pytest.raises(UsageError, match="the run is COMPLETED; only a running one"):
        handle.preempt()
    assert control.asked == ["cancel", "preempt"]


def test_the_status_says_where_the_run_stands(run: RunRecord) -> None:
    handle, _ = job(run)

    status = handle.status()

    assert (status.state, status.attempts, status.round, status.world_size) == (JobState.RUNNING, 1, 1, 2)
    assert status.why == "job 7: RUNNING"


def test_logs_are_those_of_one_rank_round_by_round(run: RunRecord) -> None:
    handle, _ = job(run)
    for place in ("1/2/0.out", "1/10/0.out", "1/10/0.err", "2/11/0.out"):
        path = run.files.run_dir / "logs" / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{place}\n")

    assert handle.logs() == "2/11/0.out\n"
    assert handle.logs(attempt=1) == "1/2/0.out\n1/10/0.out\n1/10/0.err\n"
    assert handle.logs(attempt=-2) == handle.logs(attempt=1)
    with pytest.raises(
        UsageError,
        match=r"no output of rank 7 in attempt 2 below .*; attempts with output: 1, 2; ranks of attempt 2: 0",
    ):
        handle.logs(rank=7)


def test_a_directory_without_a_job_cannot_be_attached_to(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no run directory"):
        Job.attach(tmp_path / "nowhere")
    with pytest.raises(UsageError, match="holds no submitted job"):
        Job.attach(tmp_path)


def test_a_job_is_attached_to_by_its_directory(run: RunRecord) -> None:
    run.submitted()
    run.returned(0, 5)
    run.close(succeeded=True)

    attached = Job.attach(run.files.run_dir)

    assert (attached.job_id, attached.run_id, attached.run_dir) == ("7", "run", run.files.run_dir)
    assert attached.result() == 5
