"""`hpc-elastic report` from the run directory alone, and what it says to bad input."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hpc_elastic.cli.main import main
from tests.unit.submission.run_records import RunRecord


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    record = RunRecord(tmp_path / "run")
    record.begin()
    record.fail(1, 7)
    return tmp_path / "run"


def test_a_few_lines_say_where_the_time_went(run_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(run_dir)]) == 0
    told = capsys.readouterr().out
    assert [line.split()[0] for line in told.splitlines()[1:]] == [
        *("useful", "repeated", "saving"),
        *("restarting", "waiting"),
    ]


def test_json_has_seconds_that_add_up(run_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(run_dir), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert sum(told["seconds"].values()) == pytest.approx(told["elapsed_s"])


def test_a_page_is_written_whole(run_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "run.html"

    assert main(["report", str(run_dir), "-o", str(page)]) == 0

    assert page.read_text().endswith("</html>\n")
    assert "n2, rank 1" in page.read_text()
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["{run}", "-o", "{run}/none/run.html"], "cannot be written"),
        (["{run}/record"], "nothing has started in"),
        (["unheard-of"], "there is no run 'unheard-of'"),
    ],
)
def test_bad_input_ends_with_one_line(
    run_dir: Path, words: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", *(word.format(run=run_dir) for word in words)]) == 64
    said = capsys.readouterr().err
    assert complaint in said
    assert said.count("\n") == 1
