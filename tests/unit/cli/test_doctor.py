"""`hpc-elastic doctor` without a Slurm: findings of this node, and what it says to bad input."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hpc_elastic.cli.main import main


@pytest.fixture(autouse=True)
def nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setenv("HPC_ELASTIC_ALLOW_LOOPBACK", "1")
    monkeypatch.delenv("HPC_ELASTIC_ETCD", raising=False)


def test_without_slurm_the_rest_is_told_all_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["doctor", "--run-dir", str(tmp_path)]) == 0
    told = capsys.readouterr().out
    assert "note  Slurm: there is no scontrol in PATH" in told
    assert "exclusive create by link" in told
    assert "hpc_elastic 0." in told


def test_json_has_every_finding_with_what_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--run-dir", str(tmp_path), "--json"]) == 0
    findings = json.loads(capsys.readouterr().out)
    assert {one["check"] for one in findings} >= {"Slurm", "run directory", "address", "etcd", "Python"}
    assert all(set(one) == {"check", "level", "fact", "meaning", "do", "nodes"} for one in findings)


def test_a_problem_is_status_1_and_says_what_to_type(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tmp_path.chmod(0o777)

    assert main(["doctor", "--run-dir", str(tmp_path)]) == 1
    told = capsys.readouterr().out
    assert "FIX   run directory" in told
    assert "> export HPC_ELASTIC_HOME=" in told


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--nodes", "-1"], "--nodes -1: give 1 to 4096"),
        (["--nodes", "many"], "invalid int value: 'many'"),
        (["--meet", "3"], "expected COUNT:FOLDER"),
        (["--frobnicate"], "unknown option '--frobnicate'"),
    ],
)
def test_bad_input_ends_with_one_line(
    words: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["doctor", *words]) == 64
    said = capsys.readouterr().err
    assert complaint in said
    assert said.count("\n") == 1


def test_nodes_without_srun_are_an_error_that_says_what_was_tried(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["doctor", "--nodes", "2", "--run-dir", str(tmp_path)]) == 1
    assert "0 of 2 nodes answered" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
