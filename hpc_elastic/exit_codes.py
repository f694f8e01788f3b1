"""The exit codes of an agent and of the batch side: the one table, rendered into the docs."""

from __future__ import annotations

from enum import IntEnum
from typing import Final


class ExitCode(IntEnum):
    """How an agent, or the batch side after its agents, ended.

    Any other status is the root-cause worker's own (128 + n where signal n ended it).
    """

    DONE = 0
    FAILED = 1
    USAGE = 64
    SAVED = 80
    UNSAVED = 81
    NO_PROGRESS = 82
    NODE_SUSPECT = 83
    RECORD_LOST = 84
    RENDEZVOUS_TIMEOUT = 85


MEANINGS: Final[dict[ExitCode, str]] = {
    ExitCode.DONE: "the run is done",
    ExitCode.FAILED: "a worker failed with no status of its own, or with one of 80 to 85",
    ExitCode.USAGE: "the command line, the environment or the run directory is not usable",
    ExitCode.SAVED: "preempted; every worker saved",
    ExitCode.UNSAVED: "preempted; at least one worker was stopped before it had saved",
    ExitCode.NO_PROGRESS: "the same failure again and again without progress: not requeued",
    ExitCode.NODE_SUSPECT: "this node cannot be trusted: failures, a check, a process that does not die",
    ExitCode.RECORD_LOST: "the run record was out of reach for longer than the store-lost budget",
    ExitCode.RENDEZVOUS_TIMEOUT: "too few nodes joined in time",
}

_RESERVED: Final = range(80, 86)


def worker_status(returncode: int) -> int:
    """The status an agent reports for a worker that ended with `returncode`.

    `returncode` is as `subprocess` gives it: negative for a signal. A worker's own 80 to 85
    would be mistaken for an agent's, so it is reported as 1.
    """
    if returncode < 0:
        return 128 - returncode
    return int(ExitCode.FAILED) if returncode in _RESERVED else returncode
