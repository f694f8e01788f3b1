"""`hpc-elastic logs` copies the right files, and says what there is when it finds none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hpc_elastic.cli.main import main


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    for place, text in {
        "1/1/0.out": "old\n",
        "2/3/0.out": "a\n",
        "2/3/0.err": "b\n",
        "2/10/0.out": "c\n",
        "2/3/1.out": "other\nunfinished",
    }.items():
        path = tmp_path / "run" / "logs" / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "run"


def told(capsysbinary: pytest.CaptureFixture[bytes], *words: str) -> str:
    assert main(["logs", *words]) == 0
    return capsysbinary.readouterr().out.decode()


def test_the_newest_attempt_of_rank_0_comes_round_by_round(
    run_dir: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert told(capsysbinary, str(run_dir)) == "a\nb\nc\n"
    assert told(capsysbinary, str(run_dir), "--attempt", "-2") == "old\n"
    assert told(capsysbinary, str(run_dir), "--attempt", "1") == "old\n"


def test_lines_of_several_ranks_are_led_by_their_rank(
    run_dir: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    text = told(capsysbinary, str(run_dir), "--rank", "all")

    assert text.splitlines() == ["[0] a", "[0] b", "[1] other", "[1] unfinished", "[0] c"]


def test_where_jobs_share_a_run_its_rounds_hold_the_output_of_an_attempt_together(
    run_dir: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    """Each element, and each guest, keeps the output of its own ranks under an attempt of its own."""
    guest = run_dir / "logs" / "3" / "10"
    guest.mkdir(parents=True)
    (guest / "1.out").write_text("a guest\n")

    assert told(capsysbinary, str(run_dir)) == "c\n", "rank 0 since the guest came"
    assert told(capsysbinary, str(run_dir), "--rank", "all") == "[0] c\n[1] a guest\n"
    assert told(capsysbinary, str(run_dir), "--attempt", "2") == "a\nb\nc\n"


def test_json_lists_the_files(run_dir: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    listed = json.loads(told(capsysbinary, str(run_dir), "--json", "--rank", "1"))

    assert [(one["attempt"], one["round"], one["stream"], one["size_bytes"]) for one in listed] == [
        (2, 3, "out", 16)
    ]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--rank", "7"], "no output of rank 7 in attempt 2"),
        (["--rank", "x"], "--rank x: give a number from 0 on, or all"),
        (["--attempt", "9"], "attempts with output: 1, 2"),
        (["--attempt", "one"], "--attempt one: give a number"),
        (["--json", "-f"], "give one of the two"),
    ],
)
def test_bad_input_is_answered_with_what_there_is(
    run_dir: Path, words: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["logs", str(run_dir), *words]) == 64
    assert complaint in capsys.readouterr().err


def test_an_unknown_run_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["logs", str(tmp_path / "none")]) == 64
    assert "there is no run" in capsys.readouterr().err
