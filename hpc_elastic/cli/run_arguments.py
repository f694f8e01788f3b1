"""The options of `hpc-elastic run` by group: torchrun's by their names, and ours."""

from __future__ import annotations

import argparse
from typing import Final

from hpc_elastic import settings
from hpc_elastic.cli import option_values, run_binding, run_output, run_watching
from hpc_elastic.cli.parser import CommandParser

_BACKENDS: Final = ("auto", "file", "etcd", "etcd-v3", "etcd-v2")

_EXAMPLES: Final = """examples:
  hpc-elastic run --standalone --nproc-per-node 2 train.py --lr 0.1
  srun --ntasks-per-node=1 hpc-elastic run --nnodes 2:4 train.py
  hpc-elastic run --nproc-per-node 4 -m my.train --lr 0.1
  hpc-elastic run --tee 3 --duplicate-stdout-filters loss,eval train.py
  hpc-elastic run --standalone --json train.py > ended.json

Everything from SCRIPT on belongs to the script. Options may be written with
underscores as well. Exit status: 0 done, 64 wrong usage, 80 saved and told to
stop, 81 stopped unsaved, 82 the same failure again and again, 83 this node is
suspect, 84 the record is lost, 85 too few nodes; else that of the worker that
failed."""


def add_arguments(parser: CommandParser) -> None:
    """All options of `run`, in groups, with examples."""
    parser.usage = "hpc-elastic run [options] SCRIPT [ARGS...]"
    parser.epilog = _EXAMPLES
    parser.keep_rest("command")
    _add_nodes(parser)
    _add_rendezvous(parser)
    _add_failures(parser)
    _add_stopping(parser)
    run_watching.add_arguments(parser)
    run_binding.add_arguments(parser)
    run_output.add_arguments(parser)
    run_binding.add_compatible_arguments(parser)


def _add_nodes(parser: CommandParser) -> None:
    group = parser.add_argument_group("nodes and workers")
    group.add_argument(
        "--nnodes", metavar="N|MIN:MAX", help="nodes of the run (those of the Slurm job, else 1)"
    )
    group.add_argument(
        "--nproc-per-node",
        default="auto",
        metavar="N|auto|gpu|xpu|cpu",
        help="workers on this node; auto: one for each visible accelerator, else 1; cpu: one for each CPU "
        "that is given to this agent (auto)",
    )
    group.add_argument("--standalone", action="store_true", help="this node alone, whatever is around it")
    group.add_argument("--pool", action="store_true", help="the elements of a job array are one run")
    group.add_argument(
        "--pool-id", metavar="ID", help="the pool this job belongs to, where it takes an element's place"
    )
    group.add_argument(
        "--guest", action="store_true", help="this job joins the run of another (see `hpc-elastic join`)"
    )
    group.add_argument("--node-rank", type=int, metavar="N", help="place in the node order, outside Slurm")
    group.add_argument("--role", default="default", help="name of this kind of worker (default)")
    group.add_argument("-m", "--module", action="store_true", help="SCRIPT is a module, as in python -m")
    group.add_argument("--no-python", action="store_true", help="SCRIPT is a program, not Python")
    group.add_argument(
        "--keep-slurm-env",
        action="store_true",
        help="leave SLURM_PROCID and the like to the workers; some frameworks then ignore RANK",
    )


def _add_rendezvous(parser: CommandParser) -> None:
    group = parser.add_argument_group("the run and its rendezvous")
    group.add_argument("--rdzv-id", metavar="ID", help="name of the run (that of the Slurm job)")
    group.add_argument(
        "--run-dir", metavar="DIR", help="its directory, seen by all nodes ($HPC_ELASTIC_HOME/ID)"
    )
    group.add_argument(
        "--rdzv-backend",
        default="auto",
        type=option_values.backend,
        choices=_BACKENDS,
        help="where the nodes meet: " + ", ".join(_BACKENDS) + " (auto: etcd where one is given and "
        "answers, else the run directory)",
    )
    group.add_argument(
        "--rdzv-endpoint",
        default="",
        metavar="HOST[:PORT],...",
        help="members of an etcd cluster ($HPC_ELASTIC_ETCD); port 2379 by default",
    )
    group.add_argument(
        "--rdzv-conf",
        default="",
        metavar="KEY=VALUE,...",
        help="times in seconds: "
        + ", ".join(f"{key} ({value:g})" for key, value in option_values.CONF.items())
        + "; of etcd: protocol, cacert, cert, key, user, password_file, etcd_prefix",
    )
    group.add_argument(
        "--local-addr", default="", metavar="ADDR", help="address other nodes reach this one by"
    )
    group.add_argument(
        "--master-addr", default="", metavar="ADDR", help="MASTER_ADDR, instead of agreeing on it"
    )
    group.add_argument("--master-port", type=int, default=0, metavar="PORT", help="MASTER_PORT, likewise")


def _add_failures(parser: CommandParser) -> None:
    group = parser.add_argument_group("failures")
    group.add_argument(
        "--max-restarts",
        type=int,
        default=settings.MAX_RESTARTS,
        metavar="N",
        help=f"restarts after failures in the whole run ({settings.MAX_RESTARTS})",
    )
    group.add_argument(
        "--restart-backoff",
        type=float,
        default=settings.RESTART_BACKOFF_S,
        metavar="SECONDS",
        help="pause before the restart after a second failure in a row without progress; it doubles up to "
        f"{settings.LONGEST_BACKOFF_S:g} ({settings.RESTART_BACKOFF_S:g}; 0: none); the first is immediate",
    )
    group.add_argument(
        "--same-failures",
        type=int,
        default=settings.SAME_FAILURES,
        metavar="N",
        help="the same failure so often in a row without progress ends the run with 82 "
        f"({settings.SAME_FAILURES}; 0: never)",
    )
    _add_bad_nodes(group)


def _add_bad_nodes(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--node-failures",
        type=int,
        default=settings.NODE_FAILURES,
        metavar="N",
        help="a node that has ended so many rounds, twice as many as any other, is left out of the run "
        f"({settings.NODE_FAILURES}; 0: never)",
    )
    group.add_argument(
        "--exclude-bad-nodes",
        type=int,
        default=0,
        metavar="N",
        help="after a requeue Slurm shall not give the job the nodes that were left out of the run; where "
        "they are more than N, it may (0: always)",
    )


def _add_stopping(parser: CommandParser) -> None:
    group = parser.add_argument_group("stopping")
    group.add_argument(
        "--shutdown-timeout",
        type=float,
        default=settings.SHUTDOWN_TIMEOUT_S,
        metavar="SECONDS",
        help=f"how long workers may take to end ({settings.SHUTDOWN_TIMEOUT_S:g})",
    )
    group.add_argument(
        "--notice-signal",
        default="USR1,USR2",
        metavar="NAME,...",
        help="signals that mean: you will have to stop (USR1,USR2)",
    )
    group.add_argument(
        "--monitor-interval",
        type=float,
        default=1.0,
        metavar="SECONDS",
        help="how often to look at workers besides; their end is seen at once (1)",
    )
