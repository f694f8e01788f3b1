"""The page for people from torchrun and the options of `run` say the same."""

from __future__ import annotations

from hpc_elastic.cli import run_arguments, torchrun
from hpc_elastic.cli.parser import CommandParser


def options() -> set[str]:
    parser = CommandParser(prog="hpc-elastic run")
    run_arguments.add_arguments(parser)
    return set(parser._option_string_actions)


def test_an_option_of_torchrun_is_one_of_run_unless_it_is_refused() -> None:
    known = options()

    assert [each for each, row in torchrun.OPTIONS.items() if row.is_refused == (each in known)] == []


def test_what_is_refused_has_something_in_its_place() -> None:
    assert torchrun.instead_of("--logs-specs") is not None
    assert torchrun.instead_of("--nnodes") is None
    assert torchrun.instead_of("--unheard-of") is None


def test_the_help_of_run_has_groups_and_examples_and_fits_a_terminal() -> None:
    parser = CommandParser(prog="hpc-elastic run")
    run_arguments.add_arguments(parser)
    text = parser.format_help()

    groups = [line for line in text.splitlines() if line.endswith(":") and not line.startswith(" ")]
    assert len(groups) >= 6
    assert "examples:\n  hpc-elastic run --standalone" in text
    assert [line for line in text.splitlines() if len(line) > 100] == []
