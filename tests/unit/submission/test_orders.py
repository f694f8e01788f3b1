"""What a person orders of a run reaches whoever runs it, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from hpc_elastic.cli.main import main
from hpc_elastic.errors import RunOver, SubmissionError, UsageError
from hpc_elastic.rendezvous import keys, record
from hpc_elastic.rendezvous.sequels import Continued
from hpc_elastic.slurm.commands import Answer
from hpc_elastic.status import snapshot
from hpc_elastic.submission.orders import Orders
from tests.unit.submission.run_records import NOW, HandClock, RunRecord

RUNNING = "JobId=7 JobName=x JobState=RUNNING Reason=None Requeue=1 Restarts=0 BatchFlag=1"
PENDING = RUNNING.replace("RUNNING", "PENDING")


class Slurm:
    """Answers by the first word, and remembers what it was asked."""

    def __init__(self, **outputs: str) -> None:
        self.outputs = {"scontrol": RUNNING, "scancel": "", **outputs}
        self.asked: list[str] = []

    def __call__(self, command: Sequence[str], timeout_s: float) -> Answer:
        self.asked.append(" ".join(command))
        return Answer(tuple(command), 0, self.outputs.get(command[0], ""))


@pytest.fixture
def run(tmp_path: Path) -> RunRecord:
    made = RunRecord(tmp_path / "run")
    made.begin()
    return made


def orders(run: RunRecord, slurm: Slurm) -> Orders:
    return Orders(run.files.run_dir, HandClock(), slurm)


def test_cancel_and_preempt_go_to_the_slurm_job_that_the_record_names(run: RunRecord) -> None:
    slurm = Slurm()

    assert orders(run, slurm).cancel() == "job 7 is being ended"
    assert "job 7 has its notice" in orders(run, slurm).preempt()

    assert slurm.asked == ["scancel 7", "scancel --signal=USR2 7"]


def test_a_job_that_went_on_with_a_submitted_run_gets_the_orders(run: RunRecord) -> None:
    run.submitted()
    run.create(keys.attempt_key(2), record.Attempt(2, "slurm", "8", "", 0, NOW, (), "w"))

    assert orders(run, Slurm()).cancel() == "job 8 is being ended"


def test_orders_go_to_the_job_that_goes_on_in_the_place_of_the_first(run: RunRecord) -> None:
    run.create(keys.continuation_key(1, "7", 0), Continued(1, "7", 0, "8", NOW, "w"))
    slurm = Slurm(scontrol=PENDING.replace("JobId=7", "JobId=8"))

    assert "job 8 was waiting and is cancelled" in orders(run, slurm).drain()
    assert orders(run, slurm).cancel() == "job 8 is being ended"

    assert slurm.asked[-1] == "scancel 8"
    away = snapshot.read(run.files.run_dir).attempts[0].stays_away
    assert away is not None
    assert away.is_cancelled, "for a batch side that is about to bring it back"


def test_drain_puts_a_notice_on_record_that_forbids_a_requeue(run: RunRecord) -> None:
    told = orders(run, Slurm()).drain(90)

    assert "in 90 s at the latest" in told
    attempt = snapshot.read(run.files.run_dir).last_attempt
    assert attempt is not None
    assert attempt.notice is not None
    assert attempt.notice.reason is record.Reason.CANCELLED
    assert attempt.notice.seconds_left == 90
    assert keys.notice_key(1).encode() in snapshot.bell(run.files.run_dir)


def test_a_drained_job_that_waits_in_the_queue_is_taken_out_of_it(run: RunRecord) -> None:
    slurm = Slurm(scontrol=PENDING)

    assert "was waiting and is cancelled: what it saved before stays" in orders(run, slurm).drain()
    assert slurm.asked[-1] == "scancel 7"
    assert (attempt := snapshot.read(run.files.run_dir).last_attempt) is not None
    assert attempt.notice is None
    assert attempt.is_cancelled, "so that `status` does not go on waiting for it"


def test_agents_that_meet_in_etcd_are_rung_through_slurm(run: RunRecord) -> None:
    choice = record.BackendChoice(1, "etcd-v3", "host:2379", "/p", "c", "as told", NOW, "w")
    run.create(keys.backend_key(1), choice)
    slurm = Slurm()

    orders(run, slurm).drain()

    assert slurm.asked[-1] == "scancel --signal=USR2 7"


def test_a_notice_that_stands_already_is_not_replaced(run: RunRecord) -> None:
    standing = record.Notice(1, record.Reason.PREEMPTED, record.Scope.RUN, 5.0, "", "TERM", NOW, "w")
    run.create(keys.notice_key(1), standing)

    assert "it was told to stop before (preempted)" in orders(run, Slurm()).drain()


def test_one_task_of_an_array_is_addressed_by_array_and_task(run: RunRecord) -> None:
    start = record.Attempt(2, "slurm", "9", "3", 0, NOW, (), "w")
    run.create(keys.attempt_key(2), start)
    slurm = Slurm(squeue="8 9 1\n9 9 3\n")

    assert orders(run, slurm).cancel() == "job 9_3 is being ended"
    assert "scancel 9_3" in slurm.asked

    with pytest.raises(SubmissionError, match="which task of its array job 9 is"):
        orders(run, Slurm(squeue="8 9 1\n")).cancel()


def test_a_refusal_of_slurm_is_passed_on(run: RunRecord) -> None:
    class Refusing(Slurm):
        def __call__(self, command: Sequence[str], timeout_s: float) -> Answer:
            return Answer(tuple(command), 1, "", "Access/permission denied")

    with pytest.raises(SubmissionError, match=r"permission denied.*squeue --me"):
        orders(run, Refusing()).cancel()


def test_a_run_that_is_over_takes_no_orders(run: RunRecord) -> None:
    run.close(succeeded=True)
    slurm = Slurm()

    for order in (orders(run, slurm).cancel, orders(run, slurm).preempt, orders(run, slurm).drain):
        with pytest.raises(RunOver, match="is done: there is nothing to stop"):
            order()
    assert slurm.asked == []


def test_a_directory_where_nothing_has_started_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"nothing has started in .*; see `squeue --me`"):
        Orders(tmp_path, HandClock(), Slurm()).cancel()


def by_hand(run_dir: Path, state: record.NodeState) -> RunRecord:
    """A run of one agent that a person has started."""
    made = RunRecord(run_dir)
    made.create(keys.attempt_key(1), record.Attempt(1, "local", "ab", "", 0, NOW, (), "w"))
    presence = record.Presence("1-n1-x", 1, "n1", 0, "host1", "10.0.0.1", 0, 1, "default", state, 1, 5)
    made.create(keys.node_key("1-n1-x"), presence)
    return made


def a_guest_of(run: RunRecord, job: str) -> None:
    """A job that has joined the run and lives."""
    run.create(keys.attempt_key(2), record.Attempt(2, "slurm", job, "", 0, NOW, (), "w", record.GUESTS))
    state = record.NodeState.CONFIRMED
    presence = record.Presence("2-n9-x", 2, "n9", 0, "host9", "10.0.0.9", 0, 1, "default", state, 1, 5)
    run.create(keys.node_key("2-n9-x"), presence)


def test_a_cancel_ends_the_jobs_that_joined_the_run_and_those_that_wait_to(run: RunRecord) -> None:
    a_guest_of(run, "9")
    run.files.guests.mkdir(parents=True)
    (run.files.guests / "12").touch()
    slurm = Slurm()

    assert orders(run, slurm).cancel() == "job 7 is being ended, with the jobs that join it: 9, 12"
    assert slurm.asked == ["scancel 7", "scancel 9", "scancel 12"]


def test_a_job_that_joined_long_ago_and_is_forgotten_hinders_no_cancel(run: RunRecord) -> None:
    class Forgetful(Slurm):
        def __call__(self, command: Sequence[str], timeout_s: float) -> Answer:
            if command[-1] == "7":
                return Answer(tuple(command), 0)
            return Answer(tuple(command), 1, "", f"scancel: error: {self.complaint} {command[-1]}")

        complaint = "Kill job error on job id 9: Invalid job id specified"

    a_guest_of(run, "9")
    assert orders(run, Forgetful()).cancel().startswith("job 7 is being ended, with the job that joins it")

    slurm = Forgetful()
    slurm.complaint = "Access denied"
    with pytest.raises(SubmissionError, match=r"Access denied.*the job may go on with the run"):
        orders(run, slurm).cancel()


def test_a_drain_reaches_guests_too_and_takes_those_that_wait_out_of_the_queue(run: RunRecord) -> None:
    choice = record.BackendChoice(1, "etcd-v3", "host:2379", "/p", "c", "as told", NOW, "w")
    run.create(keys.backend_key(1), choice)
    a_guest_of(run, "9")
    run.create(keys.backend_key(2), choice)
    slurm = Slurm()

    orders(run, slurm).drain()

    stops = [asked for asked in slurm.asked if asked.startswith("scancel")]
    assert stops == ["scancel --state=PENDING 9", "scancel --signal=USR2 7", "scancel --signal=USR2 9"]
    guest = snapshot.read(run.files.run_dir).attempt(2)
    assert guest is not None
    assert guest.notice is not None
    assert guest.notice.reason is record.Reason.CANCELLED


def test_a_cancel_shortens_what_agents_started_by_hand_were_told_before(tmp_path: Path) -> None:
    run = by_hand(tmp_path / "run", record.NodeState.CONFIRMED)
    slurm = Slurm()
    orders(run, slurm).drain(500)

    assert "they are told to end within 5 s" in orders(run, slurm).cancel()
    attempt = snapshot.read(run.files.run_dir).own_attempt
    assert attempt is not None
    assert attempt.why_stopped is not None
    assert attempt.why_stopped.seconds_left == 5
    assert slurm.asked == []

    told = orders(run, slurm).preempt()
    assert told == "it was told to stop before (cancelled), within 500 s, and is saving"


def test_agents_started_by_hand_that_have_left_are_told_nothing(tmp_path: Path) -> None:
    run = by_hand(tmp_path / "run", record.NodeState.LEFT)
    slurm = Slurm()

    for order in (orders(run, slurm).cancel, orders(run, slurm).preempt, orders(run, slurm).drain):
        with pytest.raises(UsageError, match="no node of attempt 1 is there any more: there is nothing to"):
            order()
    attempt = snapshot.read(run.files.run_dir).own_attempt
    assert attempt is not None
    assert attempt.notice is None


def test_an_etcd_that_only_agents_started_by_hand_reach_is_named_with_what_to_type(tmp_path: Path) -> None:
    run = by_hand(tmp_path / "run", record.NodeState.CONFIRMED)
    choice = record.BackendChoice(1, "etcd-v3", "127.0.0.1:1", "/p", "c", "as told", NOW, "w")
    run.create(keys.backend_key(1), choice)

    for order in (orders(run, Slurm()).cancel, orders(run, Slurm()).preempt, orders(run, Slurm()).drain):
        with pytest.raises(SubmissionError, match=r"cannot be told from here.*on host1 .*kill -USR2 PID"):
            order()


@pytest.mark.parametrize("command", ["drain", "preempt", "cancel"])
@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ([], "the following arguments are required: RUN"),
        (["no-such-run"], "there is no run 'no-such-run'"),
        (["."], "nothing has started in"),
        (["a\0b"], "there is no run 'a\\x00b'"),
        (["x" * 5000], "can be no run directory"),
    ],
)
def test_bad_orders_end_with_one_line(
    command: str,
    words: list[str],
    complaint: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)

    assert main([command, *words]) == 64
    said = capsys.readouterr().err
    assert complaint in said
    assert said.count("\n") == 1
