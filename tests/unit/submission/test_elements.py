"""All elements of an array as one job."""

from __future__ import annotations

import pytest

from hpc_elastic.slurm import job_record
from hpc_elastic.submission import elements
from hpc_elastic.submission.states import Seen, Sight


@pytest.mark.parametrize(
    ("states", "sight", "word"),
    [
        (("RUNNING", "PENDING", "FAILED"), Sight.ACTIVE, "RUNNING"),
        (("COMPLETING", "CANCELLED"), Sight.ACTIVE, "COMPLETING"),
        (("FAILED", "PENDING", "FAILED"), Sight.WAITING, "PENDING"),
        (("CANCELLED", "FAILED", "TIMEOUT"), Sight.ENDED, "FAILED"),
        (("CANCELLED", "TIMEOUT"), Sight.ENDED, "TIMEOUT"),
        (("CANCELLED", "CANCELLED"), Sight.ENDED, "CANCELLED"),
    ],
)
def test_an_array_goes_on_as_long_as_one_of_its_elements_may(
    states: tuple[str, ...], sight: Sight, word: str
) -> None:
    seen = elements.of_states(states, "array 70")

    assert (seen.sight, seen.word, seen.is_settled) == (sight, word, False)


def test_the_elements_of_an_array_are_told_from_other_jobs_and_one_record_may_be_of_several() -> None:
    shown = (
        "JobId=72 ArrayJobId=70 ArrayTaskId=1 JobName=x UserId=u(1) GroupId=g(1) JobState=RUNNING\n"
        "JobId=70 ArrayJobId=70 ArrayTaskId=2-7%3 JobName=x UserId=u(1) GroupId=g(1) JobState=PENDING\n"
        "JobId=71 JobName=70 UserId=u(1) GroupId=g(1) JobState=FAILED\n"
    )

    found = job_record.parse_array(shown, "70")

    assert [one.state for one in found] == ["RUNNING", "PENDING"]
    assert elements.seen(found, "array 70").sight is Sight.ACTIVE


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("PREEMPTED", "PENDING", "RUNNING"), "RUNNING"),
        (("PREEMPTED", "PENDING"), "PENDING"),
        (("COMPLETED", "CANCELLED"), "COMPLETED"),
        (("CANCELLED", "TIMEOUT"), "TIMEOUT"),
    ],
)
def test_of_several_jobs_of_a_run_the_one_that_still_goes_on_counts(
    words: tuple[str, ...], expected: str
) -> None:
    looks = [Seen(elements.sight_of(word), word, "job") for word in words]

    assert elements.together(looks).word == expected


def test_what_nobody_could_see_is_no_end_of_the_others() -> None:
    ended, unseen, gone = Seen(Sight.ENDED, "FAILED"), Seen(Sight.UNSEEN), Seen(Sight.GONE)

    assert elements.together([ended, unseen, gone]) == unseen
    assert elements.together([gone, ended]) == ended
    assert elements.together([gone, gone]) == gone


def test_where_no_element_is_shown_nothing_is_concluded() -> None:
    assert elements.seen((), "array 70").sight is Sight.UNSEEN
