"""Which job a run is by now."""

from __future__ import annotations

from pathlib import Path

from hpc_elastic.rendezvous.sequels import Continued
from hpc_elastic.status import continuations
from hpc_elastic.status.snapshot import RunSnapshot


def run(*pairs: tuple[str, str], attempt: int = 1) -> RunSnapshot:
    found = tuple(Continued(attempt, of, restart, job, "", "w") for restart, (of, job) in enumerate(pairs))
    return RunSnapshot(Path("/run"), continuations=found)


def test_a_job_that_came_back_by_itself_is_the_job_it_was() -> None:
    assert continuations.last_of(run(), "7") == "7"
    assert continuations.last_of(run(("7", "8")), "9") == "9"


def test_it_goes_on_as_the_last_of_a_row_of_jobs() -> None:
    assert continuations.last_of(run(("7", "8"), ("8", "11")), "7") == "11"


def test_of_two_continuations_of_one_job_the_later_counts() -> None:
    """Slurm gave it back after the first one had been submitted."""
    assert continuations.last_of(run(("7", "8"), ("7", "9")), "7") == "9"


def test_a_circle_comes_to_an_end() -> None:
    assert continuations.last_of(run(("7", "8"), ("8", "7")), "7") in ("7", "8")


def test_a_pool_is_its_array_and_what_goes_on_for_its_elements_and_not_those_of_an_earlier_pool() -> None:
    found = run(("71", "80"), ("80", "81"), ("72", "82"), attempt=3)

    assert continuations.of_pool(found, "70") == ("70", "81", "82")
    assert continuations.of_pool(found, "90", after_attempt=3) == ("90",)
