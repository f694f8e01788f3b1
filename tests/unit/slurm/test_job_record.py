"""The record of a job, as several releases print it."""

from __future__ import annotations

from datetime import datetime

import pytest

from hpc_elastic.slurm import job_record
from tests.unit.slurm.records import RELEASES, job_text


@pytest.mark.parametrize("release", RELEASES)
def test_every_release_gives_the_same_facts(release: str) -> None:
    job = job_record.parse(job_text(release, restarts="2", requeue="0"), "71")

    assert job is not None
    assert (job.job_id, job.state, job.reason, job.partition) == ("71", "RUNNING", "None", "low")
    assert (job.requeue, job.restarts, job.is_batch) == (False, 2, True)
    assert (job.run_time_s, job.time_limit_s) == (600.0, 86400.0)
    assert job.end_time == datetime.fromisoformat("2026-03-02T12:00:00")
    assert job.preempt_time is None
    assert job.seconds_left == 86400.0 - 600.0


@pytest.mark.parametrize("release", RELEASES)
def test_free_text_of_the_user_cannot_pass_for_a_field(release: str) -> None:
    text = job_text(
        release,
        name="x JobState=CANCELLED UserId=y Requeue=0",
        command="/home/ann/a JobState=FAILED Restarts=9",
        comment="PreemptTime=2026-01-01T00:00:00",
    )

    job = job_record.parse(text, "71")

    assert job is not None
    assert (job.state, job.requeue, job.restarts, job.preempt_time) == ("RUNNING", True, 0, None)


def test_an_element_of_an_array_is_found_among_its_siblings_and_addressed_by_its_index() -> None:
    lines = [
        job_text(id=str(70 + n), array=f" ArrayJobId=72 ArrayTaskId={n}", restarts=str(n)) for n in range(3)
    ]

    job = job_record.parse("".join(lines), "72")

    assert job is not None
    assert (job.restarts, job.address) == (2, "72_2")


def test_a_plain_job_is_addressed_by_its_id() -> None:
    job = job_record.parse(job_text(), "71")

    assert job is not None
    assert job.address == "71"


@pytest.mark.parametrize(
    "text", ["", "\n", "No jobs in the system", "slurm_load_jobs error: Invalid job id", "JobId="]
)
def test_what_is_no_record_gives_none(text: str) -> None:
    assert job_record.parse(text, "71") is None
    assert job_record.parse(job_text(id="72"), "71") is None


def test_a_field_that_is_gone_or_unreadable_becomes_none_and_the_rest_still_counts() -> None:
    job = job_record.parse(
        "JobId=71 JobState=RUNNING Requeue=maybe EndTime=Unknown TimeLimit=UNLIMITED", "71"
    )

    assert job is not None
    assert job.state == "RUNNING"
    assert (job.requeue, job.restarts, job.end_time, job.time_limit_s, job.seconds_left) == (None,) * 5


def test_flags_behind_a_state_are_no_part_of_it() -> None:
    job = job_record.parse(job_text(state="RUNNING+STAGE_OUT"), "71")

    assert job is not None
    assert job.state == job_record.RUNNING


def test_after_a_suspension_the_time_left_is_not_known() -> None:
    job = job_record.parse(job_text(suspended="30"), "71")

    assert job is not None
    assert job.seconds_left is None


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("00:05", 5),
        ("01:02:03", 3723),
        ("2-00:00:01", 172801),
        ("UNLIMITED", None),
        ("Partition_Limit", None),
    ],
)
def test_durations_are_read_in_every_form(text: str, seconds: float | None) -> None:
    job = job_record.parse(job_text(limit=text), "71")

    assert job is not None
    assert job.time_limit_s == seconds


def test_kill_wait_is_found_in_the_configuration() -> None:
    shown = "Configuration data\nKillOnBadExit           = 0\nKillWait                = 5 sec\n"

    assert job_record.kill_wait_s(shown) == 5.0
    assert job_record.kill_wait_s("") is None
