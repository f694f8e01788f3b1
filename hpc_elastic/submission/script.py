"""The batch script of a submission: the template itself, with the submitter's lines put in."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from hpc_elastic.errors import SubmissionError

# Stands alone on a line of the template, behind its traps and in front of its first use of Python.
SETUP_MARK: Final = "# --- setup ---"

_DIRECTIVE: Final = "#SBATCH "


def locate() -> Path:
    """The template: beside this module in an installation, in `sbatch/` in a checkout."""
    here = Path(__file__).resolve().parent
    for place in (here / "elastic.sh", here.parent.parent / "sbatch" / "elastic.sh"):
        if place.is_file():
            return place
    raise SubmissionError(
        f"elastic.sh is neither in {here} nor in a checkout around it; install the package again"
    )


def directives(text: str) -> dict[str, str]:
    """The options of the `#SBATCH` lines of a script: name to the whole option."""
    options: dict[str, str] = {}
    for line in text.splitlines():
        if line.startswith(_DIRECTIVE):
            for word in shlex.split(line.removeprefix(_DIRECTIVE), comments=True):
                options[word.lstrip("-").partition("=")[0]] = word
    return options


def compose(template: str, variables: Mapping[str, str], setup: Sequence[str]) -> str:
    """The template with exported `variables` and the user's `setup` lines at its mark.

    They are part of the script, not of the environment of sbatch: so `--export=NONE` cannot lose
    them, nor a requeue days later.
    """
    exports = [f"export {name}={shlex.quote(value)}" for name, value in variables.items()]
    before, mark, after = template.partition(f"\n{SETUP_MARK}\n")
    if not mark:
        raise SubmissionError(f"the template has no line {SETUP_MARK!r}; install the package again")
    return "\n".join((before, SETUP_MARK, *exports, *setup, after))
