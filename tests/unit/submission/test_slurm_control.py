"""Asking Slurm about a job: rarely, and never mistaking silence or a moment for an end."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from hpc_elastic.errors import SubmissionError
from hpc_elastic.slurm.commands import Answer
from hpc_elastic.submission.slurm_control import SlurmControl
from hpc_elastic.submission.states import Sight
from tests.unit.submission.run_records import HandClock

LINE = "JobId=7 JobName=train UserId=u(1000) GroupId=g(1000) JobState={} Reason={} Requeue={} Restarts=0"
UNKNOWN = "slurm_load_jobs error: Invalid job id specified"


class FakeSlurm:
    """Answers as the commands do for one job in `state`; None: unknown, "down": out of reach."""

    def __init__(self, state: str | None, accounting: str | None = None, requeue: int = 1) -> None:
        self.state, self.accounting, self.requeue, self.reason = state, accounting, requeue, "None"
        self.calls: list[tuple[str, ...]] = []

    def __call__(self, command: Sequence[str], timeout_s: float) -> Answer:
        self.calls.append(tuple(command))
        if command[0] == "sacct":
            lost = Answer(tuple(command), 1, "", "Slurm accounting storage is disabled")
            return lost if self.accounting is None else Answer(tuple(command), 0, self.accounting)
        if command[0] == "scancel":
            return Answer(tuple(command), 0 if self.state else 1, "", "" if self.state else UNKNOWN)
        if self.state is None:
            return Answer(tuple(command), 1, "", UNKNOWN)
        if self.state == "down":
            return Answer(tuple(command), 1, "", "Unable to contact slurm controller")
        return Answer(tuple(command), 0, LINE.format(self.state, self.reason, self.requeue))


def control(slurm: FakeSlurm) -> tuple[SlurmControl, HandClock]:
    clock = HandClock()
    return SlurmControl("7", clock, slurm), clock


@pytest.mark.parametrize(
    ("state", "sight"),
    [
        ("PENDING", Sight.WAITING),
        ("REQUEUE_HOLD", Sight.WAITING),
        ("RUNNING", Sight.ACTIVE),
        ("COMPLETING", Sight.ACTIVE),
        ("CANCELLED", Sight.ENDED),
        ("BOOT_FAIL", Sight.ENDED),
        (None, Sight.GONE),
        ("down", Sight.UNSEEN),
    ],
)
def test_each_state_of_slurm_is_one_sight(state: str | None, sight: Sight) -> None:
    looking, _ = control(FakeSlurm(state))

    assert looking.look().sight is sight
    assert not looking.look().is_settled


@pytest.mark.parametrize(
    ("reason", "says"),
    [
        ("Priority", "job 7: PENDING, Priority"),
        ("None", "job 7: PENDING"),
        ("PartitionConfig", "job 7: PENDING, it asks for more nodes or time than its partition allows"),
    ],
)
def test_a_job_that_waits_says_for_what(reason: str, says: str) -> None:
    slurm = FakeSlurm("PENDING")
    slurm.reason = reason

    shown = str(control(slurm)[0].look())

    assert shown.startswith(says)
    assert "None" not in shown


def test_a_thousand_looks_in_ten_minutes_are_a_few_dozen_questions() -> None:
    slurm = FakeSlurm("RUNNING")
    looking, clock = control(slurm)

    for _ in range(1000):
        looking.look()
        clock.sleep_s(0.6)

    assert len(slurm.calls) < 40


def test_an_end_settles_only_when_it_has_stood_and_a_requeue_undoes_it() -> None:
    slurm = FakeSlurm("PREEMPTED")
    looking, clock = control(slurm)
    looking.look()

    clock.sleep_s(5)
    assert not looking.look().is_settled
    slurm.state = "PENDING"
    clock.sleep_s(3)
    assert looking.look().sight is Sight.WAITING
    slurm.state = "PREEMPTED"
    clock.sleep_s(30)
    assert not looking.look().is_settled
    clock.sleep_s(30)
    assert looking.look().is_settled


def test_an_end_without_requeue_has_to_stand_too_for_another_job_may_go_on() -> None:
    looking, clock = control(FakeSlurm("PREEMPTED", requeue=0))

    assert not looking.look().is_settled
    clock.sleep_s(30)
    assert looking.look().is_settled


def test_the_job_that_goes_on_is_asked_for_at_once_and_its_end_has_to_stand_again() -> None:
    slurm = FakeSlurm("PREEMPTED")
    looking, clock = control(slurm)
    looking.look()
    clock.sleep_s(60)
    assert looking.look().is_settled

    looking.follow("8")

    assert not looking.look().is_settled
    assert slurm.calls[-1][-1] == "8"
    looking.cancel()
    assert slurm.calls[-1] == ("scancel", "8")


def test_of_a_pool_every_job_that_goes_on_for_an_element_is_looked_at_until_one_runs() -> None:
    slurm = FakeSlurm("RUNNING")
    looking, _ = control(slurm)
    looking.follow("7", "8", "9")

    assert looking.look().sight is Sight.ACTIVE
    assert [call[-1] for call in slurm.calls] == ["7"]
    slurm.state = "PENDING"
    looking.follow("7", "8")
    assert looking.look().sight is Sight.WAITING
    assert [call[-1] for call in slurm.calls] == ["7", "7", "8"]
    looking.cancel()
    assert slurm.calls[-1] == ("scancel", "7", "8")


def test_the_accounting_is_asked_for_a_job_that_the_controller_forgot() -> None:
    looking, _ = control(FakeSlurm(None, "PREEMPTED\nCANCELLED by 1000\n"))

    seen = looking.look()

    assert (seen.sight, seen.word) == (Sight.ENDED, "CANCELLED")


def test_a_signal_that_slurm_refuses_is_an_error_with_its_words() -> None:
    slurm = FakeSlurm("RUNNING")
    looking, _ = control(slurm)
    looking.cancel()
    looking.preempt()
    assert slurm.calls == [("scancel", "7"), ("scancel", "--signal=USR2", "7")]

    slurm.state = None
    with pytest.raises(SubmissionError, match="Invalid job id specified; see `squeue --me`"):
        looking.cancel()


class Chain:
    """The states of the jobs of one run; `marks` are those that wait or run, and whom they follow."""

    def __init__(self, states: dict[str, str | None], marks: dict[str, str]) -> None:
        self.states, self.marks = states, marks
        self.no_queue = Answer((), 0)
        self.calls: list[tuple[str, ...]] = []

    def __call__(self, command: Sequence[str], timeout_s: float) -> Answer:
        self.calls.append(tuple(command))
        if command[0] == "squeue":
            shown = "".join(f"{job} hpc-elastic:run:{before}:0\n" for job, before in self.marks.items())
            return self.no_queue if not self.no_queue.is_ok else Answer((), 0, f"5 my own comment\n{shown}")
        if command[0] == "scontrol":
            state = self.states[command[-1]]
            line = LINE.replace("JobId=7", f"JobId={command[-1]}").format(state, "None", 1)
            return (
                Answer(tuple(command), 1, "", UNKNOWN) if state is None else Answer(tuple(command), 0, line)
            )
        return Answer(tuple(command), 0 if command[0] == "scancel" else 1, "")


def of_run(slurm: Chain, run_id: str = "run") -> tuple[SlurmControl, HandClock]:
    clock = HandClock()
    return SlurmControl("7", clock, slurm, run_id=run_id), clock


@pytest.mark.parametrize("end", ["PREEMPTED", "FAILED", None])
def test_a_job_that_goes_on_with_the_run_of_an_ended_one_is_looked_at_instead(end: str | None) -> None:
    slurm = Chain({"7": end, "8": "PENDING"}, {"8": "7"})
    looking, clock = of_run(slurm)

    assert (looking.look().sight, looking.look().source) == (Sight.WAITING, "job 8")

    slurm.states["8"] = "RUNNING"
    clock.sleep_s(60)
    looking.follow("7")
    assert looking.look().sight is Sight.ACTIVE, "the record still names the first job"
    assert looking.job_id == "8"


def test_a_chain_of_such_jobs_is_followed_to_its_end_and_orders_go_there() -> None:
    slurm = Chain({"7": "FAILED", "8": "FAILED", "9": "RUNNING"}, {"9": "8", "8": "7"})
    looking, _ = of_run(slurm)

    looking.cancel()

    assert slurm.calls[-1] == ("scancel", "9")


def test_the_newest_job_of_the_record_is_looked_at_though_its_forerunner_is_forgotten() -> None:
    slurm = Chain({"7": None, "8": "RUNNING"}, {})
    looking, clock = of_run(slurm)

    looking.follow("8")

    assert (looking.look().sight, looking.look().source) == (Sight.ACTIVE, "job 8")
    assert all("7" not in call for call in slurm.calls)
    clock.sleep_s(1)


def test_without_a_job_that_goes_on_the_end_is_the_end() -> None:
    looking, clock = of_run(Chain({"7": "PREEMPTED"}, {"8": "6"}))

    assert not looking.look().is_settled
    clock.sleep_s(30)
    assert (looking.look().sight, looking.look().is_settled) == (Sight.ENDED, True)


def test_where_the_queue_does_not_answer_nobody_says_that_the_run_is_over() -> None:
    slurm = Chain({"7": "PREEMPTED"}, {})
    slurm.no_queue = Answer((), 1, "", "slurm_load_jobs error: Unable to contact slurm controller")
    looking, clock = of_run(slurm)

    for _ in range(5):
        assert looking.look().sight is Sight.UNSEEN
        clock.sleep_s(60)


def test_where_nobody_can_ask_for_the_queue_the_end_is_the_end() -> None:
    slurm = Chain({"7": "PREEMPTED"}, {})
    slurm.no_queue = Answer((), 127, "", "squeue is not in PATH")
    looking, clock = of_run(slurm)

    looking.look()
    clock.sleep_s(30)
    assert (looking.look().sight, looking.look().is_settled) == (Sight.ENDED, True)


def test_a_job_of_another_run_is_not_taken_for_it() -> None:
    looking, _ = of_run(Chain({"7": "FAILED"}, {"8": "7"}), run_id="ru")

    assert looking.look().sight is Sight.ENDED
