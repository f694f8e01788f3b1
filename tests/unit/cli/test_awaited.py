"""`logs -f` of a job that has not begun waits for its run, and for nothing else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from hpc_elastic.cli import awaited
from hpc_elastic.errors import UsageError
from hpc_elastic.slurm.commands import Answer
from tests.unit.submission.run_records import HandClock

PENDING = "JobId=7 JobName=x JobState=PENDING Reason=Priority Requeue=1 Restarts=0 BatchFlag=1"
RUNNING = PENDING.replace("PENDING", "RUNNING").replace("Priority", "None")
ENDED = PENDING.replace("PENDING", "FAILED").replace("Priority", "NonZeroExitCode")


class Story(HandClock):
    """A clock by which the world goes on: after so many seconds something happens, each once."""

    def __init__(self) -> None:
        super().__init__()
        self.record = PENDING
        self.later: list[tuple[float, Callable[[], object]]] = []

    def after(self, seconds: float, happens: Callable[[], object]) -> None:
        self.later.append((self.now_s + seconds, happens))

    def sleep_s(self, seconds: float) -> None:
        super().sleep_s(seconds)
        for one in [one for one in self.later if one[0] <= self.now_s]:
            self.later.remove(one)
            one[1]()

    def shows(self, record: str) -> Callable[[], object]:
        return lambda: setattr(self, "record", record)

    def slurm(self, command: Sequence[str], timeout_s: float) -> Answer:
        return Answer(tuple(command), 0 if self.record else 1, self.record)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HPC_ELASTIC_HOME", str(tmp_path / "runs"))
    return tmp_path / "runs"


def test_a_job_in_the_queue_is_waited_for_until_its_run_is_there(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    story = Story()
    story.after(600, story.shows(RUNNING))
    story.after(610, lambda: (home / "slurm-7").mkdir(parents=True))

    assert awaited.find("7", clock=story, runner=story.slurm) == home / "slurm-7"

    told = capsys.readouterr().err.splitlines()
    assert told[0].startswith("hpc-elastic: job 7: PENDING, Priority; waiting for its run to begin")
    assert len(told) <= 2, "once for each change"


def test_a_job_that_ends_without_a_run_is_refused_like_one_that_is_not_there(home: Path) -> None:
    story = Story()
    story.after(60, story.shows(RUNNING))
    story.after(90, story.shows(ENDED))

    with pytest.raises(UsageError, match="there is no run '7'"):
        awaited.find("7", clock=story, runner=story.slurm)


def test_a_controller_that_is_away_for_a_while_does_not_end_the_waiting(home: Path) -> None:
    story = Story()
    story.after(60, story.shows(""))
    story.after(300, lambda: (home / "slurm-7").mkdir(parents=True))

    assert awaited.find("7", clock=story, runner=story.slurm) == home / "slurm-7"


def test_a_job_that_runs_without_a_run_here_is_told_where_it_may_be(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    story = Story()
    story.record = RUNNING
    story.after(200, story.shows(ENDED))

    with pytest.raises(UsageError):
        awaited.find("7", clock=story, runner=story.slurm)

    told = capsys.readouterr().err
    assert told.count("one with a --run-dir goes by that") == 1


def test_while_it_is_in_the_queue_the_runs_here_are_not_read_again(home: Path) -> None:
    story = Story()
    begins_s = story.now_s + 600
    story.after(100, lambda: (home / "slurm-7").mkdir(parents=True))
    story.after(600, story.shows(RUNNING))

    assert awaited.find("7", clock=story, runner=story.slurm) == home / "slurm-7"

    assert story.now_s >= begins_s


def test_a_run_that_began_and_ended_between_two_looks_is_found(home: Path) -> None:
    story = Story()
    story.after(60, story.shows(ENDED))
    story.after(60, lambda: (home / "slurm-7").mkdir(parents=True))

    assert awaited.find("7", clock=story, runner=story.slurm) == home / "slurm-7"


@pytest.mark.parametrize("word", ["nonsense", "7"])
def test_what_is_no_job_or_no_slurm_is_refused_at_once(home: Path, word: str) -> None:
    story = Story()
    story.record = ""

    with pytest.raises(UsageError, match="there is no run"):
        awaited.find(word, clock=story, runner=story.slurm)

    assert story.now_s == HandClock().now_s
