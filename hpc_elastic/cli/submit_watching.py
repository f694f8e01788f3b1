"""`hpc-elastic submit --wait` and `-f`: what a job waits for, its output, and how it has ended."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from hpc_elastic.clock import SYSTEM_CLOCK, Clock
from hpc_elastic.exit_codes import ExitCode
from hpc_elastic.status import snapshot
from hpc_elastic.submission.states import JobState

if TYPE_CHECKING:
    from typing import TextIO

    from hpc_elastic.submission.job import Job, JobStatus

_LOOK_EVERY_S: Final = 1.0
_INTERRUPTED: Final = 130
_CLEAR: Final = "\r\x1b[K"


class ProgressLine:
    """What is waited for, on one line of a terminal; elsewhere a line for each change."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._is_terminal = out.isatty()
        self._shown = ""

    def show(self, text: str) -> None:
        """Replace what is shown."""
        if text == self._shown:
            return
        self._shown = text
        self._out.write(f"{_CLEAR}{text}" if self._is_terminal else f"{text}\n")
        self._out.flush()

    def clear(self) -> None:
        """Leave an empty line to others."""
        if self._is_terminal and self._shown:
            self._out.write(_CLEAR)
            self._out.flush()
        self._shown = ""


def what_is_waited_for(status: JobStatus, joined: int) -> str:
    """One line for a person; `joined` are the nodes of this attempt that have shown themselves."""
    if status.state in (JobState.PENDING, JobState.REQUEUED):
        return f"waiting in the queue: {status.why}"
    if status.state is JobState.UNKNOWN:
        return f"cannot see the job at the moment: {status.why}"
    if status.state.is_final:
        return f"the run is {status.state.value}: {status.why}"
    if status.notice:
        return f"saving and leaving ({status.notice}), attempt {status.attempts}"
    if status.round == 0:
        return f"waiting for nodes to join: {joined} so far{_nth(status)}"
    workers = "1 worker" if status.world_size == 1 else f"{status.world_size} workers"
    return f"running: round {status.round}, {workers}{_nth(status)}"


def _nth(status: JobStatus) -> str:
    """Which start of the run it is; nothing before its agents have said so."""
    return f", attempt {status.attempts}" if status.attempts else ""


def watch(job: Job, *, follow: bool, clock: Clock = SYSTEM_CLOCK) -> int:
    """Wait for the end and say it; with `follow` rank 0's output goes to standard output meanwhile.

    An interrupt ends the watching, never the job.
    """
    line = ProgressLine(sys.stderr)
    try:
        for status in _looks(job, clock):
            line.show(what_is_waited_for(status, _joined(job)))
            if follow and status.round:
                break
        if follow:
            line.clear()
            for text in job.follow(attempt=1):
                print(text, flush=True)
        failure = job.exception()
    except KeyboardInterrupt:
        line.clear()
        print(
            f"hpc-elastic: no longer watching; job {job.job_id} goes on. End it with `hpc-elastic cancel "
            f"{job.run_dir}`, look again with `hpc-elastic status {job.run_dir} -w`",
            file=sys.stderr,
        )
        return _INTERRUPTED
    line.clear()
    if failure is None:
        print(f"hpc-elastic: run {job.run_id} is done", file=sys.stderr)
        return int(ExitCode.DONE)
    print(f"hpc-elastic: {failure}", file=sys.stderr)
    return int(ExitCode.FAILED)


def _looks(job: Job, clock: Clock) -> Iterator[JobStatus]:
    while True:
        status = job.status()
        yield status
        if status.state.is_final:
            return
        clock.sleep_s(_LOOK_EVERY_S)


def _joined(job: Job) -> int:
    with suppress(OSError):
        return len(snapshot.read(job.run_dir).presences)
    return 0
