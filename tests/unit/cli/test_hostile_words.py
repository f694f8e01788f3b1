"""Hostile words on a command line: one line says what is wrong with them, and nothing is run or made."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

from hpc_elastic.cli.main import main
from hpc_elastic.cli.parser import CommandParser
from tests.hostile import TEXTS

LONG = "x" * 5000
each_text = pytest.mark.parametrize("text", [*TEXTS.values(), LONG], ids=[*TEXTS, "longer than any file's"])


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HPC_ELASTIC_HOME", raising=False)
    return tmp_path


def refusal(capsys: pytest.CaptureFixture[str], folder: Path, *words: str) -> str:
    """The one line that a command ends with."""
    assert main(words) == 64
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith("hpc-elastic: ")
    assert list(folder.iterdir()) == []
    return err


@each_text
@pytest.mark.parametrize("before", [("--",), ("-m", "--"), ("--no-python", "--")])
def test_run_refuses_what_is_not_there(
    capsys: pytest.CaptureFixture[str], folder: Path, before: tuple[str, ...], text: str
) -> None:
    assert "no" in refusal(capsys, folder, "run", *before, text)


def options_with_a_value(command: str) -> list[str]:
    """The long options of a command that take a value."""
    parser = CommandParser(prog=command)
    import_module(f"hpc_elastic.cli.{command}").add_arguments(parser)
    actions = [one for one in parser._actions if one.nargs is None]
    return [max(one.option_strings, key=len) for one in actions if one.option_strings]


@pytest.mark.parametrize(
    ("command", "option"),
    [(command, option) for command in ("run", "submit") for option in options_with_a_value(command)],
)
def test_a_value_with_a_newline_and_an_escape_sequence_is_shown_and_not_obeyed(
    capsys: pytest.CaptureFixture[str], folder: Path, command: str, option: str
) -> None:
    other = ("--cluster=local", "--nodes=1") if command == "submit" and option != "--nodes" else ()

    said = refusal(capsys, folder, command, *other, f"{option}=a\nb\x1b[31m", "nowhere.py")

    assert said[:-1].isprintable()


@each_text
@pytest.mark.parametrize("command", ["status", "logs", "report", "drain", "preempt", "cancel", "join"])
def test_commands_for_a_run_refuse_one_that_is_not_there(
    capsys: pytest.CaptureFixture[str], folder: Path, command: str, text: str
) -> None:
    refusal(capsys, folder, command, text)


@each_text
def test_run_and_submit_refuse_a_run_id_that_names_no_directory(
    capsys: pytest.CaptureFixture[str], folder: Path, text: str
) -> None:
    if text != TEXTS["very long"]:
        assert "cannot name a directory" in refusal(capsys, folder, "run", f"--rdzv-id={text}", __file__)
        assert "cannot be a directory name" in refusal(
            capsys, folder, "submit", "--cluster=local", "--nodes=1", f"--run-id={text}", __file__
        )


@each_text
@pytest.mark.parametrize(
    "option", ["--nodes", "--nproc-per-node", "--cluster", "--rdzv-backend", "--max-restarts", "--python"]
)
def test_submit_refuses_such_values_of_its_options(
    capsys: pytest.CaptureFixture[str], folder: Path, option: str, text: str
) -> None:
    refusal(capsys, folder, "submit", "--cluster=local", "--nodes=1", f"{option}={text}", __file__)
