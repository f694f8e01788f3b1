"""`hpc-elastic status` finds a run by directory, id or job, and says when there is none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hpc_elastic.backends.file import FileBackend
from hpc_elastic.cli.main import main
from hpc_elastic.rendezvous import keys, outside, record
from hpc_elastic.submission.files import JobFile
from tests.unit.submission.run_records import NOW, RunRecord


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HPC_ELASTIC_HOME", str(tmp_path))
    for name in ("hpc-71", "mine"):
        (tmp_path / name).mkdir()
    return tmp_path


@pytest.mark.parametrize("text", ["hpc-71", "71", "{home}/hpc-71"])
def test_a_run_is_found_by_id_job_and_directory(
    home: Path, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["status", text.format(home=home)]) == 0
    assert capsys.readouterr().out.startswith("run hpc-71: not started")


def test_without_a_run_all_runs_are_listed(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status"]) == 0
    assert capsys.readouterr().out.splitlines() == ["hpc-71: not started", "mine: not started"]


def test_json_has_the_whole_record(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", "mine", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["run_dir"] == str(home / "mine")


def test_an_unknown_run_is_named_with_the_place_that_was_looked_at(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["status", "nope"]) == 64
    assert f"there is no run 'nope', neither as a directory nor in {home}" in capsys.readouterr().err


def test_a_name_that_is_nearly_that_of_a_run_is_answered_with_it(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["status", "hpc_71"]) == 64
    assert f"nor in {home}; did you mean hpc-71? list the runs" in capsys.readouterr().err


def test_a_job_id_of_two_clusters_is_refused(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / "other-71").mkdir()

    assert main(["status", "71"]) == 64
    assert "71 may be hpc-71 or other-71" in capsys.readouterr().err


def test_the_newest_run_is_listed_last(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, made in (("hpc-71", "2026-02-01T00:00:00+00:00"), ("mine", "2026-01-01T00:00:00+00:00")):
        description = {"schema": 1, "run_id": name, "command": [], "created_at": made}
        (home / name / "run.json").write_text(json.dumps(description))

    assert main(["status"]) == 0
    assert [line.partition(":")[0] for line in capsys.readouterr().out.splitlines()] == ["mine", "hpc-71"]


def test_a_job_that_is_not_found_may_wait_or_go_by_another_name(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["status", "4711"]) == 64

    told = capsys.readouterr().err
    assert "none before it starts (`squeue -j 4711`, `scancel 4711`)" in told
    assert "one with a --run-dir goes by that" in told


def test_a_run_is_found_by_a_job_that_took_it_up_again_but_not_by_one_that_joined_it(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = RunRecord(home / "hpc-71")
    run.begin()
    run.create(keys.attempt_key(2), record.Attempt(2, "hpc", "80", "", 0, NOW, (), "w"))
    run.create(keys.attempt_key(3), record.Attempt(3, "hpc", "81", "", 0, NOW, (), "w", record.GUESTS))

    assert main(["status", "80"]) == 0
    assert capsys.readouterr().out.startswith("run hpc-71")
    assert main(["status", "81"]) == 64


def test_a_job_that_was_submitted_and_has_not_started_is_found(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = RunRecord(home / "mine")
    run.files.folder.mkdir(parents=True)
    JobFile("slurm", "90", "mine", "train", False, True, 0, NOW).write(run.files.job)

    assert main(["status", "90"]) == 0
    assert capsys.readouterr().out.startswith("run mine: not started")


def test_of_a_job_without_a_run_its_output_is_named_where_it_is_here(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(home)
    (home / "slurm-7.out").write_text("hpc-elastic: unknown option '--nprok'")

    assert main(["status", "7"]) == 64
    assert "says why in its output, here slurm-7.out" in capsys.readouterr().err


def test_watching_ends_with_a_run_that_was_taken_out_of_the_queue(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = RunRecord(home / "mine")
    run.begin()
    left = record.NodeState.LEFT
    presence = record.Presence("1-n1-x", 1, "n1", 0, "n1", "10.0.0.1", 0, 1, "default", left, 1, 5)
    run.create(keys.node_key("1-n1-x"), presence)
    outside.cancel(FileBackend(home / "mine" / "record"), 1, NOW, "w")

    assert main(["status", "mine", "-w"]) == 0
    told = capsys.readouterr().out
    assert told.startswith("run mine: cancelled")
    assert "next: to go on, submit it again with --run-dir" in told
