"""The options of `hpc-elastic run` about output: what is shown, what is kept besides, and where."""

from __future__ import annotations

import argparse

from hpc_elastic.cli.parser import CommandParser
from hpc_elastic.errors import UsageError
from hpc_elastic.values import dataclass
from hpc_elastic.workers.streams import Console, Filters


@dataclass(frozen=True)
class OutputOptions:
    """Where output goes beside the ranks' files. `log_dir`: where those lie, None for the run directory."""

    console: Console
    filters: Filters
    log_dir: str | None
    event_log_handler: str


def add_arguments(parser: CommandParser) -> None:
    """The group of these options."""
    group = parser.add_argument_group("output (all of it is always in files, one for each rank and stream)")
    streams = "0 none, 1 stdout, 2 stderr, 3 both; or per local rank, 0:1,1:2"
    group.add_argument("-t", "--tee", metavar="STREAMS", help=f"what to show here: {streams}")
    group.add_argument("-r", "--redirects", metavar="STREAMS", help=f"what not to show here: {streams}")
    group.add_argument("--local-ranks-filter", metavar="RANKS", help="local ranks to show, 0,2 or 0-3")
    for stream in ("stdout", "stderr"):
        group.add_argument(
            f"--duplicate-{stream}-filters",
            default="",
            metavar="TEXT,...",
            help=f"copy lines with one of the texts to filtered_{stream}.<node>.log; ,, is a comma",
        )
    group.add_argument(
        "--log-dir", metavar="DIR", help="keep the files in DIR/<run id>, linked from the run directory"
    )
    group.add_argument(
        "--event-log-handler",
        default="null",
        metavar="NAME",
        help="a sink of events beside the run directory's events/: console, or a plug-in's name (null)",
    )
    group.add_argument(
        "--json",
        action="store_true",
        help="at the end one JSON object on stdout: how it ended, and the root cause of a failure; what "
        "workers print is shown on stderr",
    )


def options_of(args: argparse.Namespace) -> OutputOptions:
    """What was asked for. Raises `UsageError`."""
    if args.log_dir == "":
        raise UsageError("--log-dir is empty; give a directory, or leave it out for the run directory")
    return OutputOptions(
        console=Console.parse(
            tee=args.tee, redirects=args.redirects, local_ranks_filter=args.local_ranks_filter
        ),
        filters=Filters(out=_texts(args.duplicate_stdout_filters), err=_texts(args.duplicate_stderr_filters)),
        log_dir=args.log_dir,
        event_log_handler=args.event_log_handler,
    )


def _texts(given: str) -> tuple[str, ...]:
    """The texts between commas; a doubled comma is one that belongs to a text."""
    texts = (text.replace("\0", ",") for text in given.replace(",,", "\0").split(","))
    return tuple(text for text in texts if text)
