"""`hpc-elastic` finds its commands and turns errors into one line."""

from __future__ import annotations

import pytest

from hpc_elastic.cli import main as cli
from hpc_elastic.errors import UsageError


def test_help_lists_every_command_with_its_summary(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--help"]) == 0

    shown = capsys.readouterr().out
    assert all(name in shown and summary in shown for name, summary in cli.COMMANDS.items())


def test_no_command_shows_the_overview_and_ends_as_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([]) == 64
    assert "usage: hpc-elastic" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("runn", "did you mean run?"),
        ("stat", "did you mean status?"),
        ("log", "did you mean logs?"),
        ("xyz", "one of: run, submit,"),
    ],
)
def test_an_unknown_command_is_named_together_with_the_nearest_or_all(
    word: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main([word]) == 64

    shown = capsys.readouterr().err
    assert shown.startswith(f"hpc-elastic: unknown command {word!r}; {hint}")
    assert shown.count("\n") == 1


def test_verbose_shows_where_an_error_came_from() -> None:
    with pytest.raises(UsageError):
        cli.main(["-v", "runn"])


def test_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("hpc-elastic 0.")
