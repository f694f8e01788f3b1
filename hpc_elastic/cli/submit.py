"""`hpc-elastic submit`: a script as a job, with the same checks and the same handle as in Python."""

from __future__ import annotations

import json
import sys
import warnings
from typing import TYPE_CHECKING, Final

from hpc_elastic.errors import UsageError
from hpc_elastic.exit_codes import ExitCode

if TYPE_CHECKING:
    import argparse

    from hpc_elastic.cli.parser import CommandParser
    from hpc_elastic.submission.job import Job


_EXAMPLES: Final = """
examples:
  hpc-elastic submit --nodes 4 train.py --epochs 90
  hpc-elastic submit --nodes 2:8 --slurm partition=gpu --slurm time=120 train.py
  hpc-elastic submit --nodes 2 --cluster local -f train.py  # here, output too

Ctrl-C during --wait or -f ends the watching; the job goes on.
"""


def add_arguments(parser: CommandParser) -> None:
    """The options of `hpc_elastic.submit`, then the script and its arguments."""
    parser.usage = "hpc-elastic submit --nodes N|MIN:MAX [options] SCRIPT [ARGS...]"
    parser.epilog = _EXAMPLES
    parser.add_argument("--nodes", required=True, metavar="N|MIN:MAX", help="nodes of the run")
    parser.add_argument("--nproc-per-node", default="auto", metavar="N", help="workers on each node (auto)")
    parser.add_argument("--cluster", default="auto", metavar="WHERE", help="slurm, local or auto (auto)")
    parser.add_argument("--run-id", metavar="ID", help="name of the run (made from the script's name)")
    parser.add_argument("--run-dir", metavar="DIR", help="its directory ($HPC_ELASTIC_HOME/ID)")
    parser.add_argument("--name", help="name of the job (the script's)")
    parser.add_argument("--max-restarts", type=int, default=3, metavar="N", help="after failures (3)")
    parser.add_argument("--no-requeue", action="store_true", help="a preempted job does not come back")
    parser.add_argument("--pool", action="store_true", help="one job for each node, one run for all")
    parser.add_argument("--rdzv-backend", default="auto", metavar="NAME", help="where the nodes meet (auto)")
    parser.add_argument("--rdzv-endpoint", metavar="HOST:PORT", help="its address")
    parser.add_argument(
        "--slurm",
        action="append",
        default=[],
        metavar="NAME[=VALUE]",
        help="an option of sbatch, without dashes",
    )
    parser.add_argument(
        "--setup", action="append", metavar="LINE", help="a shell line to run before the agents"
    )
    parser.add_argument("--python", metavar="PATH", help="interpreter on the nodes (this one)")
    parser.add_argument("--wait", action="store_true", help="say what it waits for, until the run is over")
    parser.add_argument("-f", "--follow", action="store_true", help="the same, with the output of rank 0")
    parser.add_argument("--json", action="store_true", help="what is printed as one JSON object")
    parser.keep_rest("rest")


def run(args: argparse.Namespace) -> int:
    """Submit, and print what one needs to find the run again."""
    if not args.rest:
        raise UsageError("no script given; usage: hpc-elastic submit --nodes N [options] SCRIPT [ARGS...]")
    if args.json and args.follow:
        raise UsageError("--json with --follow: the output of rank 0 is no JSON; give one of the two")
    with warnings.catch_warnings():
        warnings.simplefilter("always", RuntimeWarning)
        warnings.showwarning = _say
        job = _submit(args)
    told = {"job": job.job_id, "run": job.run_id, "directory": str(job.run_dir)}
    print(json.dumps(told) if args.json else "\n".join(f"{name} {value}" for name, value in told.items()))
    if not (args.wait or args.follow):
        return int(ExitCode.DONE)
    sys.stdout.flush()
    from hpc_elastic.cli.submit_watching import watch

    return watch(job, follow=args.follow)


def _submit(args: argparse.Namespace) -> Job:
    from hpc_elastic.submission.submit import submit

    script, *arguments = args.rest
    return submit(
        script,
        *arguments,
        nodes=args.nodes,
        nproc_per_node=args.nproc_per_node,
        cluster=args.cluster,
        run_id=args.run_id,
        run_dir=args.run_dir,
        name=args.name,
        max_restarts=args.max_restarts,
        requeue=not args.no_requeue,
        pool=args.pool,
        rdzv_backend=args.rdzv_backend,
        rdzv_endpoint=args.rdzv_endpoint,
        slurm=dict(_option(given) for given in args.slurm) or None,
        setup=args.setup,
        python=args.python,
    )


def _say(message: Warning | str, *_: object, **__: object) -> None:
    """A warning as a line for a person."""
    print(f"hpc-elastic: {message}", file=sys.stderr, flush=True)


def _option(given: str) -> tuple[str, str | bool]:
    name, has_value, value = given.partition("=")
    return name, value if has_value else True
