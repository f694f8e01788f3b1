"""The page about the command line, from the parsers themselves."""

from __future__ import annotations

import argparse
import re
from importlib import import_module

from hpc_elastic.cli.main import COMMANDS
from hpc_elastic.cli.parser import CommandParser

_PLACE = re.compile(r"%\((\w+)\)s")


def page() -> str:
    """All commands with their options and examples."""
    parts = [_command(name, summary) for name, summary in COMMANDS.items()]
    return (
        "# Command line\n\nMade from `hpc_elastic/cli/` by `make docs`; do not edit.\n\n"
        "`hpc-elastic COMMAND ...`, or `python -m hpc_elastic COMMAND ...`. RUN is a run directory, a run id "
        "or a Slurm job id. `-v` in front of the command shows the traceback of an error; the exit status of "
        "a bad command line is 64.\n\n" + "\n".join(parts)
    )


def _command(name: str, summary: str) -> str:
    parser = CommandParser(prog=f"hpc-elastic {name}", description=summary)
    import_module(f"hpc_elastic.cli.{name}").add_arguments(parser)
    usage = parser.usage or f"hpc-elastic {name} ..."
    told = [f"## {name}", "", f"{summary[0].upper()}{summary[1:]}.", "", "```text", usage.strip(), "```", ""]
    rows = list(_rows(parser))
    if rows:
        told += ["| | |", "| --- | --- |", *rows, ""]
    if parser.epilog:
        told += ["```text", parser.epilog.strip(), "```", ""]
    return "\n".join(told)


def _rows(parser: argparse.ArgumentParser) -> list[str]:
    rows = []
    for action in parser._actions:  # noqa: SLF001 - argparse has no other way to list them
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            for name, inner in action.choices.items():
                rows += [f"| **{name}** | {_cell(inner.description or '')} |", *_rows(inner)]
        elif action.help is not argparse.SUPPRESS and not isinstance(action, argparse._HelpAction):  # noqa: SLF001
            rows.append(_row(action))
    return rows


def _row(action: argparse.Action) -> str:
    dashed = [one for one in action.option_strings if "_" not in one] or list(action.option_strings)
    value = action.metavar if isinstance(action.metavar, str) else action.dest.upper()
    shown = ", ".join(dashed) if dashed else value
    takes = f" {value}" if dashed and action.nargs != 0 else ""
    help_text = _PLACE.sub(lambda found: str(getattr(action, found.group(1))), action.help or "")
    return f"| `{_cell(shown + takes)}` | {_cell(help_text)} |"


def _cell(text: str) -> str:
    return text.replace("%%", "%").replace("|", "\\|").replace("\n", " ")
