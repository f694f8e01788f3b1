"""`hpc-elastic report`: a run as one page of HTML, or its goodput in a line; from the run record alone."""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hpc_elastic.cli import runs
from hpc_elastic.errors import UsageError
from hpc_elastic.exit_codes import ExitCode
from hpc_elastic.status import goodput, history, report, snapshot
from hpc_elastic.status.durations import in_words
from hpc_elastic.status.goodput import Goodput, Kind

if TYPE_CHECKING:
    from hpc_elastic.cli.parser import CommandParser

_EXAMPLES: Final = """
examples:
  hpc-elastic report 4711                # where the time went, on the terminal
  hpc-elastic report 4711 -o run.html    # timeline, causes and tables as a page
"""


def add_arguments(parser: CommandParser) -> None:
    """A run, and where the page goes."""
    parser.usage = "hpc-elastic report RUN [-o FILE] [--json]"
    parser.epilog = _EXAMPLES
    runs.add_run(parser)
    parser.add_argument("-o", "--output", metavar="FILE", help="write a page of HTML here")
    parser.add_argument("--json", action="store_true", help="the seconds of each kind as one JSON object")


def run(args: argparse.Namespace) -> int:
    """Read the record, and write what was asked for."""
    run_dir = runs.find(args.run)
    found = snapshot.read(run_dir)
    if not found.attempts:
        raise UsageError(f"nothing has started in {run_dir}: there is nothing to report")
    told = history.read(run_dir)
    spent = goodput.of_run(found, told, time.time())
    if args.output is not None:
        _write(Path(args.output), report.html(found, told, spent))
    if args.json:
        print(json.dumps(_as_json(spent)))
    elif args.output is not None:
        print(f"written to {args.output}")
    else:
        print("\n".join(_lines(spent)))
    return int(ExitCode.DONE)


def _as_json(spent: Goodput) -> dict[str, object]:
    kinds = {kind.value: round(spent.seconds(kind), 3) for kind in Kind}
    return {"elapsed_s": round(spent.elapsed_s, 3), "useful_share": round(spent.share, 4), "seconds": kinds}


def _lines(spent: Goodput) -> list[str]:
    told = [f"{in_words(spent.elapsed_s)}, {100 * spent.share:.1f} % of it useful"]
    return told + [
        f"  {kind.value:<11}{in_words(spent.seconds(kind)):>14}   {goodput.MEANINGS[kind]}" for kind in Kind
    ]


def _write(path: Path, text: str) -> None:
    """The whole page or none."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(path)
    except OSError as refused:
        temporary.unlink(missing_ok=True)
        raise UsageError(
            f"{path} cannot be written: {refused.strerror}; name another file with -o"
        ) from refused
