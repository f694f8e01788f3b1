"""`hpc-elastic status`: what a run is doing, or which runs there are; reads the run's directory only."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hpc_elastic.cli import runs
from hpc_elastic.clock import SYSTEM_CLOCK
from hpc_elastic.errors import UsageError
from hpc_elastic.exit_codes import ExitCode
from hpc_elastic.status import history, pace, render, snapshot
from hpc_elastic.status.endings import how_ended
from hpc_elastic.status.pace import Pace
from hpc_elastic.status.snapshot import RunSnapshot

if TYPE_CHECKING:
    from hpc_elastic.cli.parser import CommandParser

_EVERY_S: Final = 2.0
_CLEAR: Final = "\033[H\033[2J"
_BOLD, _PLAIN = "\033[1m", "\033[0m"
_COLOURS: Final = (
    ("done", "\033[32m"),
    ("running", "\033[32m"),
    ("failed", "\033[31m"),
    ("cancelled", "\033[31m"),
    ("stop", "\033[33m"),
    ("", "\033[36m"),
)
_EXAMPLES: Final = """
examples:
  hpc-elastic status             # all in $HPC_ELASTIC_HOME, the newest last
  hpc-elastic status 4711        # a run by its Slurm job, run id or directory
  hpc-elastic status 4711 -w     # again every 2 s, until it is over
"""


def add_arguments(parser: CommandParser) -> None:
    """A run, and the form of the answer."""
    parser.usage = "hpc-elastic status [RUN] [-w] [--json]"
    parser.epilog = _EXAMPLES
    parser.add_argument("run", nargs="?", metavar="RUN", help=runs.HELP)
    parser.add_argument("-w", "--watch", action="store_true", help="show it again and again until it is over")
    parser.add_argument("--json", action="store_true", help="the whole record as one JSON object")


def run(args: argparse.Namespace) -> int:
    """Print one run, or one line for each run in the home directory."""
    home = runs.home()
    if args.watch and (args.run is None or args.json):
        raise UsageError("-w shows one run for people: give RUN, and leave --json out")
    if args.run is None:
        return _list(home, as_json=args.json)
    run_dir = runs.find(args.run, home)
    if args.watch:
        return _watch(run_dir)
    found, speed = _read(run_dir)
    print(json.dumps(_as_json(found, speed), default=str) if args.json else _shown(found, speed))
    return int(ExitCode.DONE)


def _read(run_dir: Path) -> tuple[RunSnapshot, Pace | None]:
    found = snapshot.read(run_dir)
    last = found.last_round
    told = history.read(run_dir, tail_bytes=history.TAIL_BYTES)
    return found, pace.of_round(told, last.number) if last is not None else None


def _watch(run_dir: Path) -> int:
    before = ""
    while True:
        found, speed = _read(run_dir)
        text = _shown(found, speed)
        if sys.stdout.isatty():
            print(f"{_CLEAR}{text}", flush=True)
        elif text != before:
            print(f"{text}\n", flush=True)
        before = text
        if found.is_over:
            return int(ExitCode.DONE)
        SYSTEM_CLOCK.sleep_s(_EVERY_S)


def _shown(found: RunSnapshot, speed: Pace | None) -> str:
    called = runs.called(found.run_dir)
    first, *more = render.lines(found, speed, time.time(), called)
    if not sys.stdout.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return "\n".join((first, *more))
    name, _, state = first.partition(": ")
    colour = next(code for word, code in _COLOURS if state.startswith(word))
    return "\n".join((f"{_BOLD}{name}{_PLAIN}: {colour}{state}{_PLAIN}", *more))


def _age(found: RunSnapshot) -> tuple[str, str]:
    """Sorts the newest last, where a reader looks first; one that has not started by its directory."""
    made = time.gmtime(found.run_dir.stat().st_mtime)
    return found.created_at or time.strftime("%Y-%m-%dT%H:%M:%S", made), found.run_dir.name


def _as_json(found: RunSnapshot, speed: Pace | None) -> dict[str, Any]:
    return {
        **asdict(found),
        "summary": render.summary(found),
        "ended": {one.number: how_ended(found, one) for one in found.attempts},
        "pace": asdict(speed) if speed else None,
    }


def _list(home: Path, *, as_json: bool) -> int:
    if not home.is_dir():
        raise UsageError(f"there are no runs in {home}; give a run directory, or set HPC_ELASTIC_HOME")
    # A group may share its home; what others keep to themselves is left out.
    there = (each for each in home.iterdir() if each.is_dir() and runs.may_read(each))
    found = sorted((snapshot.read(each) for each in there), key=_age)
    if as_json:
        print(json.dumps([_as_json(each, None) for each in found], default=str))
        return int(ExitCode.DONE)
    for each in found:
        print(f"{each.run_dir.name}: {render.summary(each)}")
    return int(ExitCode.DONE)
