"""`hpc-elastic sandbox`: a private real Slurm on this machine, to rehearse a preemption on."""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import TYPE_CHECKING, Final

from hpc_elastic.cli.parser import CommandParser, SubcommandParser
from hpc_elastic.clock import SYSTEM_CLOCK
from hpc_elastic.errors import UsageError

if TYPE_CHECKING:
    from hpc_elastic.testing.sandbox.layout import Layout
    from hpc_elastic.testing.sandbox.sandbox import Sandbox

_DIR_HELP: Final = (
    "directory of the sandbox (default: $HPC_ELASTIC_SANDBOX, else root's cache, "
    "/var/cache/hpc_elastic/sandbox: a sandbox needs root, and its ordinary user cannot enter /root)"
)

_EXEC_HELP: Final = "run a command in it as its ordinary user: exec -- squeue"

_EXAMPLES: Final = """examples (as root):
  hpc-elastic sandbox up --nodes 4 --grace 30
  hpc-elastic sandbox exec -- sbatch -N 4 "$PWD/elastic.sh" "$PWD/train.py"
  hpc-elastic sandbox preempt 1       # another user's job takes job 1's nodes
  hpc-elastic sandbox exec -- bash    # sbatch and squeue there mean the sandbox
  hpc-elastic sandbox down"""


def add_arguments(parser: CommandParser) -> None:
    """The subcommands."""
    parser.epilog = _EXAMPLES
    commands = parser.add_subparsers(
        dest="subcommand", metavar="SUBCOMMAND", required=True, parser_class=SubcommandParser
    )
    _add_up(_add(commands, "up", "start one; ready when all its nodes are idle"))
    _add(commands, "down", "end it: no process and no file is left, also after a crash of `up`")
    _add(commands, "status", "its nodes and jobs")
    run = commands.add_parser("exec", help=_EXEC_HELP, description=_EXEC_HELP)
    _add_dir(run)
    run.keep_rest("command")
    kill = _add(commands, "kill-node", "kill a node's slurmd, its slurmstepds and their tasks with SIGKILL")
    kill.add_argument("node", metavar="N", help="2 or n2")
    start = _add(commands, "start-node", "start a killed node again")
    start.add_argument("node", metavar="N", help="2 or n2")
    preempt = _add(commands, "preempt", "submit a job of higher priority that takes a job's nodes")
    preempt.add_argument("job", metavar="JOB", help="number of the running job that is to lose its nodes")
    preempt.add_argument(
        "--seconds", type=int, default=5, help="how long the nodes are held (default: %(default)s)"
    )


def _add(commands: argparse._SubParsersAction[SubcommandParser], name: str, summary: str) -> CommandParser:
    parser: CommandParser = commands.add_parser(name, help=summary, description=summary)
    _add_dir(parser)
    parser.add_argument("--json", action="store_true", help="the answer as one JSON object")
    return parser


def _add_dir(parser: CommandParser) -> None:
    parser.add_argument("--dir", metavar="DIR", help=_DIR_HELP)


def _add_up(parser: CommandParser) -> None:
    parser.add_argument("--nodes", type=int, default=4, help="how many (default: %(default)s)")
    parser.add_argument("--cpus-per-node", type=int, default=2, help="may exceed the machine's (default: 2)")
    parser.add_argument(
        "--grace", type=int, default=20, metavar="SECONDS", help="GraceTime of a preemption (default: 20)"
    )
    parser.add_argument("--preempt-mode", choices=("requeue", "cancel"), default="requeue")
    parser.add_argument(
        "--user-signal", action="store_true", help="a preemption sends the job's own --signal, not TERM"
    )
    parser.add_argument("--accounting", action="store_true", help="add slurmdbd and MariaDB, for sacct")
    parser.add_argument(
        "--user", help="who runs `exec` (default: the user behind sudo, else an account made for it)"
    )
    parser.add_argument("--port", type=int, help="first of a row of ports (default: free ones)")


def run(args: argparse.Namespace) -> int:
    """Do one subcommand; `exec` does not return."""
    from hpc_elastic.testing.sandbox import directory

    layout = directory.locate(args.dir, os.environ)
    return _SUBCOMMANDS[args.subcommand](args, layout)


def _up(args: argparse.Namespace, layout: Layout) -> int:
    from hpc_elastic.testing.sandbox import Sandbox, SandboxOptions

    began_s = SYSTEM_CLOCK.monotonic_s()
    options = SandboxOptions(
        nodes=args.nodes,
        cpus_per_node=args.cpus_per_node,
        grace_s=args.grace,
        preempt_mode=args.preempt_mode,
        user_signal=args.user_signal,
        accounting=args.accounting,
        user=args.user,
        port=args.port,
    )
    sandbox = Sandbox.up(layout.directory, options)
    took_s = SYSTEM_CLOCK.monotonic_s() - began_s
    return _tell(
        args,
        f"up in {took_s:.1f} s: {len(sandbox.nodes)} idle nodes; "
        f"user {sandbox.user.name}; directory {sandbox.directory}\n"
        f"next: hpc-elastic sandbox exec --dir {sandbox.directory} -- sinfo",
        directory=str(sandbox.directory),
        cluster=sandbox.cluster,
        user=sandbox.user.name,
        nodes=list(sandbox.nodes),
        took_s=round(took_s, 3),
    )


def _tell(args: argparse.Namespace, text: str, **facts: object) -> int:
    """What was done, for a person or for a program; the status of the command."""
    print(json.dumps(facts) if args.json else text)
    return 0


def _down(args: argparse.Namespace, layout: Layout) -> int:
    from hpc_elastic.testing.sandbox.sandbox import bring_down

    killed = bring_down(layout)
    stays = layout.directory.exists()
    also = f"\n{layout.directory} stays: it holds files that are not the sandbox's" if stays else ""
    text = f"down: {killed} processes ended{also}"
    return _tell(args, text, directory=str(layout.directory), processes_ended=killed, directory_stays=stays)


def _status(args: argparse.Namespace, layout: Layout) -> int:
    from hpc_elastic.testing.sandbox import daemons

    sandbox = _open(layout)
    if args.json:
        return _tell(args, "", **_described(sandbox))
    options = sandbox.options
    print(f"directory  {sandbox.directory}")
    print(f"cluster    {sandbox.cluster}, commands run as {sandbox.user.name}")
    signal = ", the job's own signal" if options.user_signal else ""
    print(f"preemption {options.preempt_mode}, {options.grace_s} s of grace{signal}")
    states = sandbox.node_states()
    for node, port in zip(sandbox.nodes, sandbox.node_ports, strict=True):
        where = f"on port {port}" if daemons.listens(port) else "killed"
        print(f"node       {node:4} {states.get(node, 'unknown'):6} {where}")
    jobs = sandbox.run(["squeue", "--format", "%.8i %.10P %.20j %.12u %.12T %.8M %.4D %R"]).stdout
    print(jobs, end="")
    return 0


def _described(sandbox: Sandbox) -> dict[str, object]:
    from hpc_elastic.testing.sandbox import daemons

    states = sandbox.node_states()
    ports = zip(sandbox.nodes, sandbox.node_ports, strict=True)
    # The name comes last: it alone may hold the bar.
    jobs = sandbox.run(["squeue", "--noheader", "--format", "%i|%P|%u|%T|%D|%R|%j"]).stdout.splitlines()
    names = ("job", "partition", "user", "state", "nodes", "where", "name")
    return {
        "directory": str(sandbox.directory),
        "cluster": sandbox.cluster,
        "user": sandbox.user.name,
        "preempt_mode": sandbox.options.preempt_mode,
        "grace_s": sandbox.options.grace_s,
        "nodes": [
            {"name": node, "state": states.get(node, "unknown"), "port": port, "is_up": daemons.listens(port)}
            for node, port in ports
        ],
        "jobs": [dict(zip(names, line.split("|", len(names) - 1), strict=False)) for line in jobs],
    }


def _exec(args: argparse.Namespace, layout: Layout) -> int:
    from hpc_elastic.testing.sandbox import account

    if not args.command:
        raise UsageError("exec: no command given; for example `hpc-elastic sandbox exec -- squeue`")
    sandbox = _open(layout)
    left = account.become(sandbox.user)
    if left is not None:
        moved = f"{sandbox.user.name} may not write in {left}, so this runs in {sandbox.user.home}"
        print(f"hpc-elastic: exec: {moved}", file=sys.stderr)
    # Nothing of ours may be lost or said twice by the program that takes our place.
    sys.stdout.flush()
    account.execute(args.command, sandbox.user, sandbox.environment())


def _kill_node(args: argparse.Namespace, layout: Layout) -> int:
    killed = _open(layout).kill_node(args.node)
    text = f"node {args.node} killed: {killed} processes; Slurm notices after its SlurmdTimeout of 10 s"
    return _tell(args, text, node=args.node, processes_ended=killed)


def _start_node(args: argparse.Namespace, layout: Layout) -> int:
    _open(layout).start_node(args.node)
    return _tell(args, f"node {args.node} is back", node=args.node)


def _preempt(args: argparse.Namespace, layout: Layout) -> int:
    if args.seconds < 1:
        raise UsageError(f"--seconds {args.seconds}: the nodes are held for at least one second")
    taker = _open(layout).preempt(args.job, seconds=args.seconds)
    text = f"job {taker} takes the nodes of job {args.job} for {args.seconds} s"
    return _tell(args, text, job=taker, preempts=args.job, seconds=args.seconds)


def _open(layout: Layout) -> Sandbox:
    from hpc_elastic.testing.sandbox import Sandbox

    return Sandbox.open(layout.directory)


_SUBCOMMANDS: Final = {
    "up": _up,
    "down": _down,
    "status": _status,
    "exec": _exec,
    "kill-node": _kill_node,
    "start-node": _start_node,
    "preempt": _preempt,
}
