"""`hpc-elastic drain`: let the workers of a run save at an agreed step and stop; it does not come back."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from hpc_elastic.cli import runs
from hpc_elastic.cli.option_values import positive
from hpc_elastic.submission.orders import DRAIN_S

if TYPE_CHECKING:
    from hpc_elastic.cli.parser import CommandParser

_EXAMPLES: Final = """
examples:
  hpc-elastic drain 4711                # status 80 once every worker has saved
  hpc-elastic drain 4711 --seconds 120  # killed if it takes longer than that
"""


def add_arguments(parser: CommandParser) -> None:
    """The run, and how long its workers may take."""
    parser.usage = "hpc-elastic drain RUN [--seconds S] [--json]"
    parser.epilog = _EXAMPLES
    runs.add_run(parser)
    parser.add_argument(
        "--seconds",
        type=float,
        default=DRAIN_S,
        metavar="S",
        help=f"how long saving may take ({DRAIN_S:g})",
    )
    parser.add_argument("--json", action="store_true", help="the answer as one JSON object")


def run(args: argparse.Namespace) -> int:
    """Give the order, and say what was done."""
    run_dir = runs.find_own(args.run)
    told = runs.orders(run_dir).drain(positive(args.seconds, "--seconds"))
    return runs.tell(run_dir, "drain", told, as_json=args.json)
