"""`--help` of every command teaches with examples, and the examples are understood."""

from __future__ import annotations

import argparse
import re
import shlex
from importlib import import_module

import pytest

from hpc_elastic.cli.main import COMMANDS, main
from hpc_elastic.cli.parser import CommandParser


def parser_of(name: str) -> CommandParser:
    parser = CommandParser(prog=f"hpc-elastic {name}", description=COMMANDS[name])
    import_module(f"hpc_elastic.cli.{name}").add_arguments(parser)
    return parser


def examples(name: str) -> list[list[str]]:
    """The words behind `hpc-elastic <name>` of each example in its help, up to the next command."""
    text = parser_of(name).format_help().partition("example")[2]
    lines = [line.strip() for line in text.splitlines() if line.startswith("  ")]
    calls = [re.split(rf"hpc-elastic {name}\b", line)[1] for line in lines if f"hpc-elastic {name}" in line]
    return [shlex.split(re.split(r"&&|\)\"", call)[0], comments=True) for call in calls]


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_a_command_has_examples_that_it_understands(name: str) -> None:
    found = examples(name)

    assert found != []
    for words in ([word.replace("$status", "80") for word in line] for line in found):
        parser = parser_of(name)
        _, unknown = parser.parse_known_args(words)
        if name != "join":  # what it does not know is for sbatch
            parser.refuse_unknown(unknown)


def pages(name: str) -> list[str]:
    """The help of a command, and of each of its subcommands."""
    parser = parser_of(name)
    inner = (one for one in parser._actions if isinstance(one, argparse._SubParsersAction))
    return [parser.format_help(), *(each.format_help() for one in inner for each in one.choices.values())]


@pytest.mark.parametrize("name", COMMANDS)
def test_a_help_fits_a_terminal_of_80_columns(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")

    assert [line for page in pages(name) for line in page.splitlines() if len(line) > 80] == []


def test_the_overview_fits_a_terminal_of_80_columns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")

    assert main([]) == 64

    assert [line for line in capsys.readouterr().out.splitlines() if len(line) > 80] == []
