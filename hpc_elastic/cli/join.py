"""`hpc-elastic join`: more nodes for a running run, from a job of their own."""

from __future__ import annotations

import argparse
import json
import os
from typing import TYPE_CHECKING, Final

from hpc_elastic.cli import run_options, runs
from hpc_elastic.errors import UsageError
from hpc_elastic.exit_codes import ExitCode

if TYPE_CHECKING:
    from hpc_elastic.cli.parser import CommandParser

_JSON: Final = "--json"  # sbatch has no such option
_EXAMPLES: Final = """
examples:
  hpc-elastic join 4711
  hpc-elastic join 4711 --nodes=2 --partition=spare --time=60

The run has to have room: its --nnodes MIN:MAX allows more nodes than it has.
When the job that joins is cancelled, preempted or over, its nodes leave and the
others go on.
"""


def add_arguments(parser: CommandParser) -> None:
    """The run, and sbatch's own options for the job that joins it."""
    parser.usage = "hpc-elastic join RUN [--json] [sbatch options]"
    parser.epilog = _EXAMPLES
    parser.add_argument(
        _JSON, action="store_true", help="the job, the run and its directory as one JSON object"
    )
    parser.keep_rest("rest")


def run(args: argparse.Namespace) -> int:
    """Submit the job, and print its number."""
    from hpc_elastic.submission import guests

    if not args.rest:
        raise UsageError(f"no run given; usage: hpc-elastic join RUN [sbatch options]; RUN is {runs.HELP}")
    run_dir = runs.find_own(args.rest[0])
    options = [word for word in args.rest[1:] if word != _JSON]
    host = guests.Hospitality.read(run_dir)
    most = (run_options.parse(host.line).nnodes or (0, 0))[1]
    if most < 2:
        raise UsageError(
            f"run {run_dir.name} is not elastic, so no node can join it; start one with --nnodes MIN:MAX"
        )
    job = guests.join(run_dir, options, os.environ)
    as_json = args.json or _JSON in args.rest[1:]
    told = {"job": job, "run": host.run_id, "directory": str(run_dir)}
    print(json.dumps(told) if as_json else f"job {job}")
    return int(ExitCode.DONE)
