"""`job.result()` through all that happens to a job: nobody who looks meanwhile is told an end that is none.

There is no accounting in this sandbox: what Slurm has forgotten, nobody can ask for. How it is with a
controller that is away for a minute is measured by `python -m benchmarks.results`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest

from hpc_elastic.rendezvous.record import Reason
from hpc_elastic.status import snapshot
from tests.integration.slurm.result_trials import Watched, troubled_runs

pytestmark = [pytest.mark.needs_slurm, pytest.mark.timeout(1500)]

AWAY_S: Final = 8.0


@pytest.fixture(scope="module")
def runs() -> Iterator[dict[str, Watched]]:
    with troubled_runs(AWAY_S) as found:
        yield found


def test_two_preemptions_an_absent_controller_and_a_killed_client(runs: dict[str, Watched]) -> None:
    run = runs["taken"]

    result = run.result()

    assert result["took"] == list(range(len(result["took"]))), run.story()
    assert result["attempt"] >= 3
    first, last = run.states()
    assert "COMPLETED" not in first, "it was killed before the end"
    run.has_no_false_end()
    assert last[-1] == "COMPLETED"
    assert "REQUEUED" in last


def test_a_time_limit(runs: dict[str, Watched]) -> None:
    run = runs["limited"]

    result = run.result()

    assert result["took"] == list(range(len(result["took"]))), run.story()
    assert result["attempt"] >= 2
    reasons = [one.why_stopped.reason for one in snapshot.read(run.run_dir).attempts if one.why_stopped]
    assert Reason.TIME_LIMIT in reasons, run.story()
    run.has_no_false_end()


def test_a_dead_node(runs: dict[str, Watched]) -> None:
    run = runs["bereft"]

    result = run.result()

    assert result["took"] == list(range(len(result["took"]))), run.story()
    first, *_, last = snapshot.read(run.run_dir).rounds
    lost = first.members[-1].name
    assert lost not in {member.name for member in last.members}
    run.has_no_false_end()
