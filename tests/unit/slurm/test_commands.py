"""Calls to the controller: repeated where that can help, and only there."""

from __future__ import annotations

import pytest

from hpc_elastic.slurm.commands import Answer
from tests.unit.slurm.fakes import FakeScontrol, refused

BUSY = refused("slurm_load_jobs error: Unable to contact slurm controller (connect failure)")


def test_an_answer_is_taken_the_first_time() -> None:
    scontrol = FakeScontrol(lambda words: "JobId=71")

    assert scontrol.controller().show_job("71").output == "JobId=71"
    assert scontrol.asked == ["show job -o 71"]


def test_a_controller_out_of_reach_is_asked_again_after_a_pause() -> None:
    answers: list[Answer | str | None] = [BUSY, None, "JobId=71"]
    scontrol = FakeScontrol(lambda words: answers.pop(0))
    began_s = scontrol.clock.now_s

    assert scontrol.controller().show_job("71").is_ok
    assert len(scontrol.asked) == 3
    assert scontrol.clock.now_s - began_s == 0.5 + 4.0 + 1.0


@pytest.mark.parametrize(
    "complaint",
    [
        "Unexpected message received for job 3",
        "slurm_load_jobs error: Socket timed out on send/recv operation",
        "slurm_load_jobs error: Zero Bytes were transmitted or received",
    ],
)
def test_what_a_controller_says_that_is_about_to_start_or_end_is_no_refusal(complaint: str) -> None:
    answers: list[Answer | str | None] = [refused(complaint), "done"]
    scontrol = FakeScontrol(lambda words: answers.pop(0))

    assert scontrol.controller().requeue("3").is_ok
    assert not refused(complaint).is_refused


def test_a_controller_that_stays_away_gives_its_last_answer_after_bounded_time() -> None:
    scontrol = FakeScontrol(lambda words: None)
    began_s = scontrol.clock.now_s

    answer = scontrol.controller().show_job("71")

    assert not answer.is_ok
    assert "no answer in 4 s" in str(answer)
    assert scontrol.clock.now_s - began_s == 3 * 4.0 + 1.5


def test_a_refusal_is_final() -> None:
    scontrol = FakeScontrol(lambda words: refused("Requested operation is presently disabled"))

    assert not scontrol.controller().requeue("71").is_ok
    assert scontrol.asked == ["requeue Incomplete 71"]


def test_a_missing_command_is_not_looked_for_again() -> None:
    scontrol = FakeScontrol(lambda words: refused("scontrol is not in PATH", status=127))

    answer = scontrol.controller().show_config()

    assert answer.is_missing
    assert len(scontrol.asked) == 1


def test_an_answer_reads_as_command_status_and_complaint() -> None:
    answer = Answer(("scontrol", "requeue", "71"), 1, complaint="Invalid\n  job id\n")

    assert str(answer) == "`scontrol requeue 71`: status 1, Invalid job id"
    assert str(Answer(("scontrol",), 1)) == "`scontrol`: status 1, no message"
    assert str(Answer(("scontrol",), 0, "much")) == "`scontrol`: status 0"
