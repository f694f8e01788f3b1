"""What a preemption does to a job on sites of every kind: a pairwise part of the measured matrix."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import astuple
from functools import partial
from typing import Final

import pytest

from tests.integration.slurm.matrix import (
    PAIRS,
    SITES,
    SUBMISSIONS,
    Observed,
    Site,
    Submission,
    expected,
    faults,
)
from tests.integration.slurm.matrix_events import run_events
from tests.integration.slurm.matrix_run import run_site

pytestmark = [pytest.mark.needs_slurm, pytest.mark.timeout(1500)]

# What has to be done before Slurm kills is not to depend on what else the machine does.
PATIENCE: Final = 6

EVENTS = {
    "`scancel`": ("cancelled", "no", "CANCELLED"),
    "`scancel` in the grace time": ("preempted", "no", "CANCELLED"),
    "`scancel -b -s USR2`": ("told by the user", "requeue", "COMPLETED"),
    "`scontrol requeue`": ("requeued", "requeue", "COMPLETED"),
    "`scontrol suspend`, then `resume`": ("none", "no", "COMPLETED"),
}


@pytest.fixture(scope="module")
def pool() -> Iterator[ThreadPoolExecutor]:
    """Most of the time of a site is waiting for Slurm, so there are two at once."""
    with ThreadPoolExecutor(2) as threads:
        yield threads
        threads.shutdown(cancel_futures=True)


@pytest.fixture(scope="module")
def events(pool: ThreadPoolExecutor) -> Future[dict[str, Observed]]:
    return pool.submit(run_events, tuple(EVENTS), PATIENCE)


@pytest.fixture(scope="module")
def sites(
    pool: ThreadPoolExecutor, events: Future[dict[str, Observed]]
) -> dict[Site, Future[dict[Submission, Observed]]]:
    """The events take longest, so they have begun before."""
    run = partial(run_site, patience=PATIENCE)
    return {site: pool.submit(run, site, submissions) for site, submissions in PAIRS.items()}


@pytest.mark.parametrize("site", PAIRS, ids=lambda site: "-".join(map(str, astuple(site))))
def test_a_preempted_job_is_told_once_saves_and_goes_on_by_itself(
    sites: dict[Site, Future[dict[Submission, Observed]]], site: Site
) -> None:
    for submission, seen in sites[site].result().items():
        assert list(faults(seen)) == [], seen
        assert (seen.told, seen.saved, seen.comes_back) == (1, "all", expected(site, submission)), seen
        assert seen.cause == ("requeued" if seen.cause == "requeued" and site.grace_s == 0 else "preempted")
        assert seen.restarts == (1 if seen.comes_back == "requeue" else 0)


def test_any_two_choices_meet_in_one_cell_of_the_part() -> None:
    def choices(site: Site, submission: Submission) -> tuple[object, ...]:
        return (*astuple(site), *astuple(submission))

    every = [choices(*cell) for cell in itertools.product(SITES, SUBMISSIONS)]
    part = [choices(site, submission) for site, chosen in PAIRS.items() for submission in chosen]

    for one, other in itertools.combinations(range(5), 2):
        assert {(cell[one], cell[other]) for cell in part} == {(cell[one], cell[other]) for cell in every}


def test_what_people_do_to_a_job_is_told_apart(events: Future[dict[str, Observed]]) -> None:
    found = events.result()

    assert {name: (seen.cause, seen.comes_back, seen.state) for name, seen in found.items()} == EVENTS
    assert [fault for seen in found.values() for fault in faults(seen)] == []
