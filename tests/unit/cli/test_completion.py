"""What the completion offers is what the commands take."""

from __future__ import annotations

import pytest

from hpc_elastic.cli import completion
from hpc_elastic.cli.main import COMMANDS, main


def test_every_command_is_offered_with_its_options(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "bash"]) == 0
    told = capsys.readouterr().out
    for name in COMMANDS:
        assert f'    {name}) options="' in told
    assert "--follow" in completion.options("logs")
    assert "--meet" not in completion.options("doctor")


def test_zsh_reads_the_same_after_a_line_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "zsh"]) == 0
    assert capsys.readouterr().out.startswith("autoload -Uz bashcompinit")


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ([], "required: bash|zsh"),
        (["fish"], "invalid choice: 'fish'"),
        (["bash", "x"], "unexpected argument 'x'"),
    ],
)
def test_bad_input_ends_with_one_line(
    words: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["completion", *words]) == 64
    assert complaint in capsys.readouterr().err
