"""`hpc-elastic doctor`: what this site gives a run, and what to do where something is missing."""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hpc_elastic.cli import runs
from hpc_elastic.clock import SYSTEM_CLOCK
from hpc_elastic.doctor import across, interpreter, network, place, site
from hpc_elastic.doctor.finding import Finding, Level, merged
from hpc_elastic.errors import UsageError
from hpc_elastic.exit_codes import ExitCode
from hpc_elastic.slurm import commands
from hpc_elastic.slurm.commands import Controller

if TYPE_CHECKING:
    from hpc_elastic.cli.parser import CommandParser

_MOST_NODES: Final = 4096
_SIGNS: Final = {Level.FINE: "  ok ", Level.NOTE: "note ", Level.PROBLEM: "FIX  "}
_EXAMPLES: Final = """
examples:
  hpc-elastic doctor             # this node, Slurm, and where runs are kept
  hpc-elastic doctor --nodes 4   # on four, and what they see of each other
  hpc-elastic doctor --json
"""


def add_arguments(parser: CommandParser) -> None:
    """Where runs are kept, and on how many nodes to look."""
    parser.usage = "hpc-elastic doctor [--nodes N] [--run-dir DIR] [--json]"
    parser.epilog = _EXAMPLES
    parser.add_argument("--nodes", type=int, default=0, metavar="N", help="look on N nodes, through srun")
    parser.add_argument("--run-dir", metavar="DIR", help="where runs are kept ($HPC_ELASTIC_HOME)")
    parser.add_argument("--json", action="store_true", help="the findings as one JSON list")
    parser.add_argument("--meet", metavar="COUNT:FOLDER", help=argparse.SUPPRESS)  # what srun starts


def run(args: argparse.Namespace) -> int:
    """Print the findings; status 1 where one of them is a problem."""
    home = Path(args.run_dir).absolute() if args.run_dir else runs.home()
    if not 0 <= args.nodes <= _MOST_NODES:
        raise UsageError(
            f"--nodes {args.nodes}: give 1 to {_MOST_NODES}, or leave it out for this node alone"
        )
    if args.meet:
        node = os.environ.get("SLURMD_NODENAME") or os.uname().nodename
        met = across.meet(args.meet, node, SYSTEM_CLOCK)
        here = _of_this_node(home, is_shared=met.level is Level.FINE)
        print(across.encode(node, [met, *here]), flush=True)
        return int(ExitCode.DONE)
    found = [*_of_slurm(), *(_of_nodes(args.nodes, home) if args.nodes else _of_this_node(home))]
    if args.json:
        print(json.dumps([asdict(one) for one in found]))
    else:
        print("\n".join(line for one in found for line in _lines(one)))
    has_problem = any(one.level is Level.PROBLEM for one in found)
    return int(ExitCode.FAILED if has_problem else ExitCode.DONE)


def _of_slurm() -> list[Finding]:
    controller = Controller(pauses_s=(1.0,))
    config = controller.show_config()
    if config.is_missing:
        meaning = 'runs start by hand or with cluster="local"'
        return [Finding("Slurm", Level.NOTE, "there is no scontrol in PATH", meaning, "module load slurm")]
    partitions = commands.run(("scontrol", "show", "partition", "-o"), commands.TIMEOUT_S)
    return site.of_site(config.output, partitions.output, os.environ)


def _of_this_node(home: Path, *, is_shared: bool = False) -> list[Finding]:
    return [
        *place.look(home, is_shared=is_shared),
        *network.look(os.environ),
        *network.look_at_etcd(os.environ),
        *interpreter.look(),
    ]


def _of_nodes(count: int, home: Path) -> Sequence[Finding]:
    room = next(each for each in (home, *home.parents) if each.is_dir())
    try:
        folder = tempfile.mkdtemp(prefix=".doctor-", dir=room)
    except OSError as refused:
        raise UsageError(f"{room} cannot be written: {refused.strerror}; give --run-dir") from refused
    try:
        return merged(across.ask_nodes(count, Path(folder), home, os.environ))
    finally:
        for name in os.listdir(folder):
            (Path(folder) / name).unlink(missing_ok=True)
        Path(folder).rmdir()


def _lines(one: Finding) -> list[str]:
    where = f" [{_named(one.nodes)}]" if one.nodes else ""
    told = [f"{_SIGNS[one.level]} {one.check}{where}: {one.fact}", f"       {one.meaning}"]
    return [*told, f"       > {one.do}"] if one.do else told


def _named(nodes: Sequence[str]) -> str:
    return ", ".join(nodes) if len(nodes) <= 4 else f"{', '.join(nodes[:3])} and {len(nodes) - 3} more"
