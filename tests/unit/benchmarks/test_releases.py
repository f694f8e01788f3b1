"""What is kept of the jobs on each release of Slurm, and what counts as a promise that was not kept."""

from __future__ import annotations

import json
from typing import Any

import pytest

from benchmarks import measured, releases
from tests.unit.slurm import recorded

KEPT: list[dict[str, Any]] = json.loads((measured.DIRECTORY / "releases.json").read_text())["releases"]
each_release = pytest.mark.parametrize("found", KEPT, ids=lambda found: str(found["version"]))


def test_the_jobs_ran_on_every_release_that_was_recorded() -> None:
    assert [found["version"] for found in KEPT] == list(recorded.RELEASES)


@each_release
def test_every_promise_was_kept(found: dict[str, Any]) -> None:
    assert releases.problems(found) == []


@each_release
def test_only_the_release_with_the_fault_starts_a_done_job_once_more(found: dict[str, Any]) -> None:
    assert releases.needless_starts(found) == (1 if found["version"] == "24.11.5" else 0)


@each_release
def test_a_start_too_many_is_a_problem_on_any_release(found: dict[str, Any]) -> None:
    often = found["again_and_again"][0]
    more = {**often, "restarts": often["restarts"] + 1}

    (problem,) = releases.problems({**found, "again_and_again": [more]})

    assert "not for free" in problem


def test_the_table_says_same_where_a_release_does_as_the_reference() -> None:
    head, _, *lines = releases.table(KEPT).splitlines()

    assert head == "| what happens | on 22.05.8 | 20.11.4 | 24.11.5 | 26.05.5 |"
    assert next(line for line in lines if line.startswith("| `scancel` |")).endswith("| same | same | same |")
