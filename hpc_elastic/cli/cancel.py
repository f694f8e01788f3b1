"""`hpc-elastic cancel`: end a run now, running or waiting."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from hpc_elastic.cli import runs

if TYPE_CHECKING:
    from hpc_elastic.cli.parser import CommandParser

_EXAMPLES: Final = """
example:
  hpc-elastic cancel 4711    # to let it save before: hpc-elastic drain 4711
"""


def add_arguments(parser: CommandParser) -> None:
    """The run."""
    parser.usage = "hpc-elastic cancel RUN [--json]"
    parser.epilog = _EXAMPLES
    runs.add_run(parser)
    parser.add_argument("--json", action="store_true", help="the answer as one JSON object")


def run(args: argparse.Namespace) -> int:
    """Give the order, and say what was done."""
    run_dir = runs.find_own(args.run)
    return runs.tell(run_dir, "cancel", runs.orders(run_dir).cancel(), as_json=args.json)
