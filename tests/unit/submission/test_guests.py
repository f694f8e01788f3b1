"""What a job that joins a run is submitted with."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from hpc_elastic.errors import RunOver, SubmissionError, UsageError
from hpc_elastic.rendezvous import keys
from hpc_elastic.rendezvous.codec import encode
from hpc_elastic.rendezvous.record import Attempt, Closed, NodeState, Presence
from hpc_elastic.rendezvous.sequels import StaysAway
from hpc_elastic.slurm.commands import Answer
from hpc_elastic.status import snapshot
from hpc_elastic.submission import guests
from tests.unit.submission.run_records import HandClock

AROUND = {"SLURM_JOB_ID": "5", "HPC_ELASTIC_RANK": "1", "PATH": "/bin"}


def a_run(folder: Path, *, line: Sequence[str] = ("--nnodes", "2:4", "train.py")) -> Path:
    record = folder / "record" / "attempts"
    record.mkdir(parents=True)
    (folder / "record" / "rounds").mkdir()
    (record / "1").write_bytes(encode(Attempt(1, "alps", "71", "", 0, "now", ("n1",), "w")))
    body = {"run_id": "alps-71", "line": list(line), "cwd": "/home/u", "python": "/py", "setup": ["module x"]}
    (folder / "run.json").write_text(json.dumps(body))
    return folder


class Sbatch:
    """Answers like sbatch, and keeps what it was called with."""

    def __init__(self, status: int = 0) -> None:
        self.called: Sequence[str] = ()
        self.script = ""
        self._status = status

    def __call__(self, command: Sequence[str], timeout_s: float) -> Answer:
        self.called = command
        self.script = next(Path(word).read_text() for word in command if word.endswith(".sh"))
        return Answer(tuple(command), self._status, "72;alps\n", "no such partition" if self._status else "")


def test_the_job_has_the_words_of_the_run_and_the_users_options_come_last(tmp_path: Path) -> None:
    sbatch = Sbatch()

    assert guests.join(a_run(tmp_path), ("--nodes=3",), AROUND, sbatch) == "72"

    called = list(sbatch.called)
    assert called[:5] == ["env", "-u", "HPC_ELASTIC_RANK", "-u", "SLURM_JOB_ID"]
    assert called.index("--nodes=1") < called.index("--nodes=3") < called.index("--guest")
    assert "--chdir=/home/u" in called
    assert called[-5:] == ["--rdzv-id=alps-71", f"--run-dir={tmp_path}", "--nnodes", "2:4", "train.py"]
    assert guests.jobs_of(snapshot.read(tmp_path)) == ("72",), "so that a cancel finds it while it waits"
    assert "module x" in sbatch.script
    assert "export HPC_ELASTIC_PYTHON=/py" in sbatch.script
    assert list((tmp_path / "submission").glob("join-*")) == [], "Slurm has a copy"


def test_a_refusal_of_slurm_is_passed_on(tmp_path: Path) -> None:
    with pytest.raises(SubmissionError, match="no such partition"):
        guests.join(a_run(tmp_path), (), AROUND, Sbatch(status=1))


def test_a_join_that_slurm_did_not_answer_is_looked_for_and_not_sent_twice(tmp_path: Path) -> None:
    sent: list[Path] = []

    def slurm(command: Sequence[str], timeout_s: float) -> Answer:
        if command[0] == "env":
            sent.append(next(Path(word) for word in command if word.endswith(".sh")))
            return Answer(tuple(command), None, complaint="no answer in 60 s")
        return Answer(tuple(command), 0, f"73 {sent[0]} --guest\n")

    with pytest.warns(RuntimeWarning, match="it is looked for in the queue"):
        assert guests.join(a_run(tmp_path), (), AROUND, slurm, HandClock()) == "73"

    assert len(sent) == 1


def test_a_run_that_has_ended_is_not_joined(tmp_path: Path) -> None:
    closed = Closed(1, 1, True, 0, 0, "all ranks are done", "now", "w")
    (a_run(tmp_path) / "record" / keys.round_key(1)).write_bytes(encode(closed))

    with pytest.raises(RunOver, match="has ended: all ranks are done"):
        guests.join(tmp_path, (), AROUND, Sbatch())


def test_a_run_that_was_cancelled_is_not_joined_and_not_brought_back_once_its_nodes_have_left(
    tmp_path: Path,
) -> None:
    record = a_run(tmp_path) / "record"
    (record / "nodes").mkdir()
    (record / keys.stays_away_key(1)).write_bytes(encode(StaysAway(1, "it was cancelled", True, "now", "w")))
    seat = ("1-n1-x", 1, "n1", 0, "host1", "10.0.0.1", 0, 1, "default")
    (record / keys.node_key("1-n1-x")).write_bytes(encode(Presence(*seat, NodeState.CONFIRMED, 1, 5)))
    guests.require_host(tmp_path)  # it is on its way out: its own members decide

    (record / keys.node_key("1-n1-x")).write_bytes(encode(Presence(*seat, NodeState.LEFT, 1, 6)))
    with pytest.raises(UsageError, match="was cancelled: there is nothing to join"):
        guests.require_host(tmp_path)
    with pytest.raises(UsageError, match="submit it again with this run directory, and join once it runs"):
        guests.join(tmp_path, (), AROUND, Sbatch())


def test_a_run_that_does_not_say_how_it_was_started_is_named_with_the_next_move(tmp_path: Path) -> None:
    (a_run(tmp_path) / "run.json").write_text("{}")

    with pytest.raises(UsageError, match=r"submit a job with the same words and --guest"):
        guests.join(tmp_path, (), AROUND, Sbatch())
