"""The command line parser keeps a script's options away from ours."""

from __future__ import annotations

import pytest

from hpc_elastic.cli.parser import CommandParser
from hpc_elastic.errors import UsageError


@pytest.fixture
def parser() -> CommandParser:
    made = CommandParser(prog="hpc-elastic run")
    made.add_argument("--nproc-per-node", type=int)
    made.add_argument("-r", "--redirects")
    made.add_argument("-m", "--module", action="store_true")
    made.keep_rest("command")
    return made


def test_an_option_is_known_by_dashes_and_by_underscores(parser: CommandParser) -> None:
    dashed = parser.parse_args(["--nproc-per-node", "2", "train.py"])
    underscored = parser.parse_args(["--nproc_per_node=2", "train.py"])

    assert dashed == underscored


def test_everything_after_the_script_belongs_to_the_script(parser: CommandParser) -> None:
    args = parser.parse_args(["-m", "-r3", "pkg.train", "--nproc-per-node", "7", "--", "-x", "--help"])

    assert args.command == ["pkg.train", "--nproc-per-node", "7", "--", "-x", "--help"]
    assert args.nproc_per_node is None
    assert args.module
    assert args.redirects == "3"


def test_two_dashes_in_front_of_the_script_are_dropped_once(parser: CommandParser) -> None:
    args = parser.parse_args(["--nproc-per-node", "2", "--", "-odd-name.py", "--", "x"])

    assert args.command == ["-odd-name.py", "--", "x"]


def test_the_value_of_an_option_is_not_taken_for_the_script(parser: CommandParser) -> None:
    assert parser.parse_args(["--redirects", "3", "train.py"]).command == ["train.py"]


def test_an_unknown_option_is_named_together_with_the_nearest_known_one(parser: CommandParser) -> None:
    with pytest.raises(
        UsageError, match=r"unknown option '--nproc-per-nod'; did you mean --nproc.per.node\?"
    ):
        parser.parse_args(["--nproc-per-nod", "2", "train.py"])


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("--nprocs", "--nproc-per-node"),
        ("--nprok", "--nproc-per-node"),
        ("--nnode", "--nnodes"),
        ("--max-restart", "--max-restarts"),
        ("--rundir", "--run-dir"),
    ],
)
def test_the_option_that_was_meant_begins_like_the_word(
    parser: CommandParser, typed: str, meant: str
) -> None:
    for name in ("--nnodes", "--max-restarts", "--run-dir", "--role"):
        parser.add_argument(name)

    with pytest.raises(UsageError, match=rf"unknown option '{typed}'; did you mean {meant}\?"):
        parser.parse_args([typed, "2", "train.py"])


def test_a_bad_value_is_named_with_its_option(parser: CommandParser) -> None:
    with pytest.raises(UsageError, match=r"--nproc-per-node.*'two'.*--help"):
        parser.parse_args(["--nproc-per-node", "two", "train.py"])


def test_a_missing_value_is_an_error_and_not_a_crash(parser: CommandParser) -> None:
    with pytest.raises(UsageError, match="expected one argument"):
        parser.parse_args(["--nproc-per-node"])


@pytest.mark.parametrize("words", [["--nproc-per-node=--"], ["--redirects=--"], ["-r--"]])
def test_two_dashes_are_no_value(parser: CommandParser, words: list[str]) -> None:
    with pytest.raises(UsageError, match=r"--(nproc-per-node|redirects): expected a value, got --; see"):
        parser.parse_args([*words, "train.py"])
