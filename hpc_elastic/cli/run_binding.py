"""The options of `hpc-elastic run` about what a worker has of its node: devices, CPUs, and how it starts."""

from __future__ import annotations

import argparse
from typing import Final

from hpc_elastic.cli import option_values
from hpc_elastic.cli.parser import CommandParser
from hpc_elastic.errors import UsageError
from hpc_elastic.values import dataclass

_SPLIT: Final = "exclusive"
_HEARD: Final = "SIGTERM,SIGINT,SIGHUP,SIGQUIT"


@dataclass(frozen=True)
class BindingOptions:
    """Whether each worker sees its own device alone, and runs on a share of the CPUs of its own."""

    virtual_local_rank: bool
    splits_cpus: bool


def add_arguments(parser: CommandParser) -> None:
    """The group of these options."""
    group = parser.add_argument_group("devices and CPUs of a worker")
    group.add_argument(
        "--virtual-local-rank",
        action="store_true",
        help="LOCAL_RANK is 0 for all, and each sees its own device alone",
    )
    group.add_argument(
        "--numa-binding",
        metavar=_SPLIT,
        help=f"{_SPLIT}: each runs on its equal share of the CPUs that this agent may use",
    )


def add_compatible_arguments(parser: CommandParser) -> None:
    """A group of what is so anyway, for those who have it in their command lines."""
    same = parser.add_argument_group("accepted from command lines of torchrun, and true without them")
    same.add_argument("--run-path", action="store_true", help="run SCRIPT in the worker's interpreter")
    same.add_argument("--start-method", default="spawn", metavar="spawn", help="a fresh process each (spawn)")
    same.add_argument(
        "--signals-to-handle", default=_HEARD, metavar="NAME,...", help=f"of {_HEARD} and --notice-signal"
    )


def options_of(args: argparse.Namespace) -> BindingOptions:
    """What was asked for. Raises `UsageError`, with what to use instead."""
    if args.start_method != "spawn":
        raise UsageError(
            f"--start-method {args.start_method}: workers are fresh processes here, because a fork takes the "
            "locks of other threads along; drop it"
        )
    if args.numa_binding not in (None, _SPLIT):
        raise UsageError(
            f"--numa-binding {args.numa_binding}: what is near a GPU only its driver knows; give {_SPLIT}, "
            "an equal share of the allowed CPUs for each worker, or let Slurm bind the agent"
        )
    _refuse_unheard(args.signals_to_handle, args.notice_signal)
    return BindingOptions(args.virtual_local_rank, args.numa_binding is not None)


def _refuse_unheard(text: str, notice_signals: str) -> None:
    heard = {*option_values.signals(_HEARD), *option_values.signals(notice_signals)}
    for name, signum in zip(text.split(","), option_values.signals(text, "--signals-to-handle"), strict=True):
        if signum not in heard:
            raise UsageError(
                f"--signals-to-handle {name}: {_HEARD} always stop workers; name what announces a stop with "
                f"--notice-signal (now {notice_signals})"
            )
