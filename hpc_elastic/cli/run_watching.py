"""The options of `run` about ranks that hang and nodes that are not well."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from hpc_elastic.cli import option_values
from hpc_elastic.cli.parser import CommandParser
from hpc_elastic.errors import UsageError

if TYPE_CHECKING:
    from hpc_elastic.agent.health import HealthCommand
    from hpc_elastic.agent.overdue import Limits

_SOURCES: Final = ("progress", "output")
_FIRST_STEP: Final = 5  # times the time of any other step
_HEALTH_S: Final = 30.0


def add_arguments(parser: CommandParser) -> None:
    """Two groups of their own."""
    _add_health(parser)
    group = parser.add_argument_group("ranks that hang")
    group.add_argument(
        "--watchdog-timeout",
        type=float,
        default=0.0,
        metavar="SECONDS",
        help="end ranks that show no progress for so long, after a dump of all stacks; a failure (0: never)",
    )
    group.add_argument(
        "--watchdog-first-step",
        type=float,
        metavar="SECONDS",
        help=f"the same for the first step, which may have to compile ({_FIRST_STEP} times the other)",
    )
    group.add_argument(
        "--watchdog-source",
        default=_SOURCES[0],
        choices=_SOURCES,
        help="what is progress: the steps that each rank tells its context, or any output of the node's "
        "ranks (progress)",
    )


def _add_health(parser: CommandParser) -> None:
    group = parser.add_argument_group("nodes that are not well")
    group.add_argument(
        "--health-command",
        metavar="COMMAND",
        help="a line for the shell, run before each join; if it fails, this node is kept out (status 83)",
    )
    group.add_argument(
        "--health-timeout",
        type=float,
        default=_HEALTH_S,
        metavar="SECONDS",
        help=f"how long it may take; longer is a failure ({_HEALTH_S:g})",
    )


def health(args: argparse.Namespace) -> HealthCommand | None:
    """What to ask before each join, if anything. Raises `UsageError`."""
    timeout_s = option_values.positive(args.health_timeout, "--health-timeout")
    if args.health_command is None:
        return None
    if not args.health_command.strip():
        raise UsageError("--health-command is empty; give a line for the shell, or leave it out")
    from hpc_elastic.agent.health import HealthCommand

    return HealthCommand(args.health_command, timeout_s)


def limits(args: argparse.Namespace) -> Limits | None:
    """How long ranks may show no progress; None where nobody watches. Raises `UsageError`."""
    if args.watchdog_timeout == 0:
        if args.watchdog_first_step is not None:
            raise UsageError("--watchdog-first-step without --watchdog-timeout watches nothing; give both")
        return None
    from hpc_elastic.agent.overdue import Limits, Source

    timeout_s = option_values.positive(args.watchdog_timeout, "--watchdog-timeout")
    first_step_s = _FIRST_STEP * timeout_s
    if args.watchdog_first_step is not None:
        first_step_s = option_values.positive(args.watchdog_first_step, "--watchdog-first-step")
    return Limits(timeout_s, max(first_step_s, timeout_s), Source(args.watchdog_source))
