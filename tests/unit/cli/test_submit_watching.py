"""What a person who waits is told: one sentence for each thing a job can wait for."""

from __future__ import annotations

import io

import pytest

from hpc_elastic.cli.submit_watching import ProgressLine, what_is_waited_for
from hpc_elastic.submission.job import JobStatus
from hpc_elastic.submission.states import JobState


def status(state: JobState, why: str = "", *, round_number: int = 0, notice: str = "") -> JobStatus:
    return JobStatus(
        state=state,
        why=why,
        attempts=2,
        round=round_number,
        world_size=8,
        failures=0,
        changes=0,
        notice=notice,
        job_id="7",
    )


@pytest.mark.parametrize(
    ("seen", "says"),
    [
        (status(JobState.PENDING, "PENDING (Priority)"), "waiting in the queue: PENDING (Priority)"),
        (status(JobState.REQUEUED, "PENDING (BeginTime)"), "waiting in the queue: PENDING (BeginTime)"),
        (status(JobState.UNKNOWN, "no answer"), "cannot see the job at the moment: no answer"),
        (status(JobState.RUNNING), "waiting for nodes to join: 3 so far, attempt 2"),
        (status(JobState.RUNNING, round_number=4), "running: round 4, 8 workers, attempt 2"),
        (
            status(JobState.RUNNING, round_number=4, notice="preempted"),
            "saving and leaving (preempted), attempt 2",
        ),
        (status(JobState.COMPLETED, "the run is done"), "the run is COMPLETED: the run is done"),
    ],
)
def test_each_state_says_what_is_waited_for(seen: JobStatus, says: str) -> None:
    assert what_is_waited_for(seen, 3) == says


class Terminal(io.StringIO):
    """A stream that a person looks at."""

    def isatty(self) -> bool:
        return True


def test_a_terminal_has_one_line_that_changes() -> None:
    out = Terminal()
    line = ProgressLine(out)

    for text in ("a", "a", "b"):
        line.show(text)
    line.clear()

    assert out.getvalue() == "\r\x1b[Ka\r\x1b[Kb\r\x1b[K"


def test_a_file_has_a_line_for_each_change() -> None:
    out = io.StringIO()
    line = ProgressLine(out)

    for text in ("a", "a", "b"):
        line.show(text)
    line.clear()

    assert out.getvalue() == "a\nb\n"
