"""Carrying a requeue out: claim, ask, verify, on whatever the controller answers."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from hpc_elastic.exit_codes import ExitCode
from hpc_elastic.rendezvous.record import Reason
from hpc_elastic.slurm.commands import Answer
from hpc_elastic.slurm.job_record import JobRecord
from hpc_elastic.slurm.requester import ASKED_SHELL, PATIENT, SUBMITS, Report, Requester
from hpc_elastic.slurm.requeue import Aftermath
from tests.unit.slurm.aftermaths import DONE, FAILED, PREEMPTED, job, notice
from tests.unit.slurm.fakes import FakeScontrol, refused
from tests.unit.slurm.records import job_text

DISABLED = refused("Requested operation is presently disabled")


class Slurm:
    """A controller with one job in it, as far as a requeue goes."""

    def __init__(self, *, refuses: Answer | None = None, requeue: str = "1", works: bool = True) -> None:
        self.refuses, self.requeue, self.works = refuses, requeue, works
        self.restarts = 0
        self.scontrol = FakeScontrol(self.answer)

    def answer(self, words: str) -> Answer | str:
        if words.startswith("show job"):
            state = "PENDING" if self.restarts else "RUNNING"
            return job_text(requeue=self.requeue, restarts=str(self.restarts), state=state)
        if words.startswith("update"):
            self.requeue = "1"
            return ""
        assert words.startswith("requeue Incomplete")
        if self.refuses is not None:
            return self.refuses
        self.restarts += self.works
        return ""

    def settle(self, after: Aftermath = PREEMPTED, taken: frozenset[int] = frozenset()) -> Report:
        requester = Requester(
            claim=lambda number: number not in taken,
            resume="submit again",
            controller=self.scontrol.controller(),
            clock=self.scontrol.clock,
        )
        return requester.settle(after)

    @property
    def acts(self) -> list[str]:
        return [words for words in self.scontrol.asked if not words.startswith("show")]


def test_a_requeue_is_asked_for_once_and_verified() -> None:
    slurm = Slurm()

    report = slurm.settle()

    assert report == Report(
        ExitCode.SAVED, "preempted; job 71 is requeued (state PENDING, restarts 1)", is_requeued=True
    )
    assert slurm.acts == ["requeue Incomplete 71"]


def test_a_preemption_is_reported_as_the_cause_also_where_no_agent_knew_it() -> None:
    slurm = Slurm()
    told = slurm.answer
    slurm.scontrol.answer = lambda words: (
        job_text(preempt="2026-03-01T12:10:00")
        if words.startswith("show") and not slurm.restarts
        else told(words)
    )

    report = slurm.settle(replace(PREEMPTED, notice=notice(Reason.UNKNOWN)))

    assert report.reason is Reason.PREEMPTED
    assert report.message.startswith("preempted; job 71 is requeued")


def test_requeue_is_switched_on_before_it_is_asked_for() -> None:
    slurm = Slurm(requeue="0")

    assert slurm.settle().is_requeued
    assert slurm.acts == ["update JobId=71 Requeue=1", "requeue Incomplete 71"]


def test_an_element_of_an_array_is_requeued_by_array_and_index() -> None:
    line = job_text(array=" ArrayJobId=71 ArrayTaskId=2")
    scontrol = FakeScontrol(lambda words: line if words.startswith("show") else DISABLED)
    requester = Requester(lambda number: True, "submit again", scontrol.controller(), scontrol.clock)

    requester.settle(PREEMPTED)

    assert "requeue Incomplete 71_2" in scontrol.asked


def test_status_zero_without_an_effect_is_reported_as_not_coming_back() -> None:
    report = Slurm(works=False).settle()

    assert not report.is_requeued
    assert report.code == ExitCode.SAVED
    assert "does not come back" in report.message
    assert "submit again" in report.message


def test_a_refusal_is_reported_with_slurms_own_words_and_the_next_move() -> None:
    report = Slurm(refuses=DISABLED).settle()

    assert not report.is_requeued
    assert "presently disabled" in report.message
    assert "submit again" in report.message


def test_a_refusal_because_somebody_was_faster_is_a_success() -> None:
    slurm = Slurm(refuses=refused("Job is pending execution"))
    seen = iter(["RUNNING", "PENDING"])
    slurm.scontrol.answer = lambda words: (
        job_text(state=next(seen)) if words.startswith("show") else refused("Job is pending execution")
    )

    assert slurm.settle().is_requeued


def test_of_two_requesters_the_second_sees_the_firsts_effect_and_does_nothing() -> None:
    slurm = Slurm()
    shown = iter(["RUNNING", "RUNNING", "RUNNING", "PENDING"])
    slurm.scontrol.answer = lambda words: job_text(state=next(shown))

    report = slurm.settle(taken=frozenset({0}))

    assert report.is_requeued
    assert "another requester" in report.message
    assert slurm.acts == []


def test_a_claim_that_stands_still_is_taken_over_by_the_next() -> None:
    slurm = Slurm()
    began_s = slurm.scontrol.clock.now_s

    report = slurm.settle(taken=frozenset({0}))

    assert report.is_requeued
    assert slurm.acts == ["requeue Incomplete 71"]
    assert slurm.scontrol.clock.now_s - began_s >= 10.0


def test_a_finish_needs_no_question_to_the_controller() -> None:
    slurm = Slurm()

    assert slurm.settle(replace(PREEMPTED, closed=DONE)).code == ExitCode.DONE
    assert slurm.scontrol.asked == []


@pytest.mark.parametrize(
    ("config", "code"),
    [
        ("RequeueExit             = (null)\n", 7),
        ("RequeueExit             = 9,12\nRequeueExitHold         = (null)\n", 7),
        ("RequeueExit             = 3,5-9\n", 1),
        ("RequeueExit             = 1-10\n", 82),
        ("RequeueExit             = (null)\nRequeueExitHold         = 7\n", 1),
        (refused("Unable to contact slurm controller"), 7),
    ],
)
def test_a_failure_keeps_its_status_unless_the_site_would_start_the_job_again_for_it(
    config: Answer | str, code: int
) -> None:
    slurm = Slurm()
    slurm.scontrol.answer = lambda words: config

    report = slurm.settle(replace(PREEMPTED, closed=FAILED))

    assert report.code == code
    assert set(slurm.scontrol.asked) == {"show config"}
    assert ("RequeueExit" in report.message) == (code != 7)


@pytest.mark.parametrize("answer", [None, refused("scontrol is not in PATH", 127)])
def test_a_controller_that_never_answers_costs_bounded_time_and_the_code_says_what_was_kept(
    answer: Answer | None,
) -> None:
    scontrol = FakeScontrol(lambda words: answer)
    requester = Requester(lambda number: True, "submit again", scontrol.controller(), scontrol.clock)
    began_s = scontrol.clock.now_s

    report = requester.settle(PREEMPTED)

    assert (report.code, report.is_requeued) == (ExitCode.SAVED, False)
    assert "submit again" in report.message
    assert scontrol.clock.now_s - began_s < 150.0


def test_a_controller_that_is_down_for_two_minutes_is_tried_until_it_answers_again() -> None:
    slurm = Slurm()
    told, began_s = slurm.answer, slurm.scontrol.clock.now_s
    down = refused("slurm_load_jobs error: Unable to contact slurm controller (connect failure)")
    slurm.scontrol.answer = lambda words: (
        down if slurm.scontrol.clock.now_s - began_s < 110.0 else told(words)
    )
    requester = Requester(
        claim=lambda number: True,
        resume="submit again",
        controller=replace(PATIENT, runner=slurm.scontrol, clock=slurm.scontrol.clock),
        clock=slurm.scontrol.clock,
    )

    assert requester.settle(PREEMPTED).is_requeued
    assert slurm.restarts == 1


def handed(after: Aftermath, record: JobRecord | None, holds_claim: bool = True) -> Report:
    scontrol = FakeScontrol(lambda words: refused("scontrol is not in PATH", 127))
    requester = Requester(lambda number: holds_claim, "submit again", scontrol.controller(), scontrol.clock)
    report = requester.hand_over(after, record)
    assert scontrol.asked == []
    return report


def test_where_there_is_no_scontrol_the_shell_is_asked_to_act_on_the_same_decision() -> None:
    for record in (job(), job(requeue="0"), None):
        assert ASKED_SHELL in handed(PREEMPTED, record).message
    template = (Path(__file__).parents[3] / "sbatch" / "elastic.sh").read_text()
    looked_for = re.findall(r"\$said == \*'(.*)'\*", template)
    said = (ASKED_SHELL, f"the batch shell {SUBMITS} ", f"{SUBMITS} ")
    assert [any(words in one for one in said) for words in looked_for] == [True, True, True]


def test_the_shell_is_not_asked_after_a_finish_a_cancel_or_by_the_second_of_two() -> None:
    for report in (
        handed(replace(PREEMPTED, closed=DONE), job()),
        handed(PREEMPTED, job(state="COMPLETING")),
        handed(PREEMPTED, job(), holds_claim=False),
    ):
        assert ASKED_SHELL not in report.message


def test_a_job_that_waits_again_is_kept_from_the_nodes_that_were_left_out() -> None:
    slurm = Slurm()

    report = slurm.settle(replace(PREEMPTED, bad_nodes=("n3", "n7")))

    assert slurm.acts == ["requeue Incomplete 71", "update JobId=71 ExcNodeList=n3,n7"]
    assert "without n3,n7" in report.message
