"""`hpc-elastic logs`: what the workers of a run have printed; from any host, also while it runs."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

from hpc_elastic.cli import awaited, runs
from hpc_elastic.clock import SYSTEM_CLOCK, Clock
from hpc_elastic.errors import UsageError
from hpc_elastic.exit_codes import ExitCode
from hpc_elastic.status import logs, render, snapshot
from hpc_elastic.status.logs import LogFile

if TYPE_CHECKING:
    from hpc_elastic.cli.parser import CommandParser

ALL: Final = "all"
_LOOK_EVERY_S: Final = 1.0
_LOOKS_APART: Final = 3
_CHUNK_BYTES: Final = 1 << 20
_EXAMPLES: Final = """
examples:
  hpc-elastic logs 4711              # rank 0 in the newest attempt, each
                                     # round's stdout, then its stderr
  hpc-elastic logs 4711 --rank 3 -f  # what rank 3 prints, also after a requeue
  hpc-elastic logs 4711 --rank all --attempt -2
"""


def add_arguments(parser: CommandParser) -> None:
    """A run, whose output, and whether to wait for more."""
    parser.usage = "hpc-elastic logs RUN [--rank N|all] [--attempt N] [-f] [--json]"
    parser.epilog = _EXAMPLES
    runs.add_run(parser)
    parser.add_argument("--rank", default="0", metavar="N|all", help="a global rank, or all of them (0)")
    parser.add_argument(
        "--attempt", default="-1", metavar="N", help="an attempt; -1 is the newest with output (-1)"
    )
    parser.add_argument("-f", "--follow", action="store_true", help="go on until the run is over")
    parser.add_argument("--json", action="store_true", help="the files and their sizes instead of the text")


def run(args: argparse.Namespace) -> int:
    """Copy the output to standard output, byte for byte."""
    rank = None if args.rank == ALL else _number("--rank", args.rank, least=0)
    attempt = _number("--attempt", args.attempt)
    if args.json and args.follow:
        raise UsageError("--json with --follow: the files do not stand still; give one of the two")
    run_dir = awaited.find(args.run) if args.follow else runs.find(args.run)
    if args.json:
        print(json.dumps([_described(one) for one in logs.find(run_dir, rank=rank, attempt=attempt)]))
        return int(ExitCode.DONE)
    _copy(run_dir, rank, attempt, follow=args.follow)
    return int(ExitCode.DONE)


def _copy(run_dir: Path, rank: int | None, attempt: int, *, follow: bool) -> None:
    reader = _Reader(run_dir, rank, sys.stdout.buffer)
    if not follow:
        reader.read(logs.find(run_dir, rank=rank, attempt=attempt))
        return
    reader.follow(logs.resolve(run_dir, attempt), _end_of(run_dir), SYSTEM_CLOCK, _Stillness(run_dir).look)


class _Stillness:
    """Says on standard error why nothing comes, where that is known: once for each change."""

    def __init__(self, run_dir: Path) -> None:
        self._run_dir = run_dir
        self._looks = 0
        self._said = ""

    def look(self) -> None:
        """Look at the record now and then; each look reads a few files."""
        self._looks += 1
        if self._looks % _LOOKS_APART:
            return
        said = render.summary(snapshot.read(self._run_dir))
        if said != self._said and not said.startswith("running"):
            print(
                f"hpc-elastic: {said}; waiting for more, Ctrl-C ends this alone", file=sys.stderr, flush=True
            )
        self._said = said


def _end_of(run_dir: Path) -> Callable[[], bool]:
    """Whether the run is over. One that was cancelled has no end on record, so its job is asked as well."""
    from hpc_elastic.submission.files import SubmissionFiles
    from hpc_elastic.submission.job import Job
    from hpc_elastic.submission.run_end import RunEnd

    if SubmissionFiles(run_dir).job.exists():
        return Job.attach(run_dir).done
    return RunEnd(run_dir).has_come


def _described(one: LogFile) -> dict[str, object]:
    return {
        "attempt": one.attempt,
        "round": one.round,
        "rank": one.rank,
        "stream": one.kind,
        "path": str(one.path),
        "size_bytes": one.path.stat().st_size,
    }


def _number(option: str, text: str, *, least: int | None = None) -> int:
    try:
        number = int(text)
    except ValueError:
        number = None
    if number is None or (least is not None and number < least):
        wanted = "a number" if least is None else f"a number from {least} on, or {ALL}"
        raise UsageError(f"{option} {text}: give {wanted}")
    return number


class _Reader:
    """Copies files to `out`, and remembers how far it has come in each.

    With several ranks each line is led by its rank; a line without an end waits for it, while more
    may come.
    """

    def __init__(self, run_dir: Path, rank: int | None, out: BinaryIO) -> None:
        self._run_dir = run_dir
        self._rank = rank
        self._out = out
        self._done_bytes: dict[Path, int] = {}

    def read(self, files: list[LogFile], *, more_may_come: bool = False) -> bool:
        """Copy what is new; whether there was anything."""
        copied = [self._copy(one, more_may_come=more_may_come) for one in files]
        self._out.flush()
        return any(copied)

    def follow(
        self, attempt: int, has_ended: Callable[[], bool], clock: Clock, idle: Callable[[], None]
    ) -> None:
        """Copy what is written in `attempt` and the later ones, until the run is over and all is copied.

        `idle` is called at each look that finds nothing new.
        """
        while True:
            is_over = has_ended()  # looked at first: then all is written
            files = logs.since(self._run_dir, attempt, self._rank)
            is_new = self.read(files, more_may_come=not is_over)
            if is_over:
                return
            if not is_new:
                idle()
                clock.sleep_s(_LOOK_EVERY_S)

    def _copy(self, one: LogFile, *, more_may_come: bool) -> bool:
        at = self._done_bytes.get(one.path, 0)
        while chunk := _chunk(one.path, at):
            written = self._write(one, chunk, more_may_come=more_may_come or len(chunk) == _CHUNK_BYTES)
            at += written
            if written != len(chunk):
                break
        had = self._done_bytes.get(one.path, 0)
        self._done_bytes[one.path] = at
        return at > had

    def _write(self, one: LogFile, chunk: bytes, *, more_may_come: bool) -> int:
        """Write `chunk`, or its whole lines; how much of it that was."""
        if self._rank is not None:
            self._out.write(chunk)
            return len(chunk)
        whole = chunk[: chunk.rfind(b"\n") + 1] if more_may_come else chunk
        if not whole and len(chunk) == _CHUNK_BYTES:
            whole = chunk  # a line as long as this is no line
        lead = f"[{one.rank}] ".encode()
        self._out.write(b"".join(lead + line for line in whole.splitlines(keepends=True)))
        if whole and not whole.endswith(b"\n"):
            self._out.write(b"\n")
        return len(whole)


def _chunk(path: Path, at: int) -> bytes:
    """Some bytes of a file from a place on; none at its end."""
    try:
        with path.open("rb") as file:
            file.seek(at)
            return file.read(_CHUNK_BYTES)
    except OSError as refused:
        raise UsageError(f"{path} cannot be read: {refused.strerror}") from refused
