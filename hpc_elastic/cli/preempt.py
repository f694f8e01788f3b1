"""`hpc-elastic preempt`: rehearse a preemption: the workers save and leave, and the job is requeued."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from hpc_elastic.cli import runs

if TYPE_CHECKING:
    from hpc_elastic.cli.parser import CommandParser

_EXAMPLES: Final = """
example:
  hpc-elastic preempt 4711 && hpc-elastic logs 4711 -f
"""


def add_arguments(parser: CommandParser) -> None:
    """The run."""
    parser.usage = "hpc-elastic preempt RUN [--json]"
    parser.epilog = _EXAMPLES
    runs.add_run(parser)
    parser.add_argument("--json", action="store_true", help="the answer as one JSON object")


def run(args: argparse.Namespace) -> int:
    """Give the order, and say what was done."""
    run_dir = runs.find_own(args.run)
    return runs.tell(run_dir, "preempt", runs.orders(run_dir).preempt(), as_json=args.json)
