"""Where the output of one node's workers goes beside their files: the console, and aggregate logs."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from hpc_elastic.agent.plan import Plan
from hpc_elastic.workers.group import WorkerStart
from hpc_elastic.workers.log_tail import Copy, Followed, LogTail
from hpc_elastic.workers.streams import Std

_STDOUT, _STDERR = 1, 2
# How long a console that takes nothing may hold up an agent, and how long one that is only slow.
_STALLED_S: Final = 2.0
_SLOW_S: Final = 10.0


class RoundOutput:
    """Copies what the workers of one round print: rank files have all of it, whatever happens here.

    The aggregate logs `filtered_stdout.<node>.log` and `filtered_stderr.<node>.log` lie beside them.
    """

    def __init__(self, tail: LogTail, logs: Sequence[int]) -> None:
        self._tail = tail
        self._logs = logs

    @classmethod
    def open(cls, plan: Plan, starts: Sequence[WorkerStart], folder: Path) -> RoundOutput:
        """To be opened before the workers start: what their files have by then is not theirs.

        Raises `OSError` where an aggregate log cannot be opened.
        """
        logs: dict[Std, int] = {}
        try:
            for stream, name in ((Std.OUT, "stdout"), (Std.ERR, "stderr")):
                if plan.filters.of(stream):
                    logs[stream] = _appended(folder / f"filtered_{name}.{plan.seat.name}.log")
        except OSError:
            _close(logs.values())
            raise
        followed = [
            Followed(path, copies, _size_bytes(path))
            for each in starts
            for stream, path in ((Std.OUT, each.stdout_path), (Std.ERR, each.stderr_path))
            if (copies := _copies(plan, each, stream, logs))
        ]
        return cls(LogTail(followed), list(logs.values()))

    def start(self) -> None:
        """Begin to copy."""
        self._tail.start()

    def finish(self) -> bool:
        """Copy what is left once the workers are gone; False when the console does not take it."""
        if not self._tail.finish(_STALLED_S, _SLOW_S):
            return False
        _close(self._logs)
        self._logs = ()
        return True


def _copies(plan: Plan, start: WorkerStart, stream: Std, logs: dict[Std, int]) -> tuple[Copy, ...]:
    prefix = f"[{plan.seat.name} {start.global_rank}] "
    copies = []
    if stream in plan.console.shows(start.local_rank, start.global_rank):
        copies.append(Copy(_STDOUT if stream is Std.OUT else _STDERR, prefix))
    if stream in logs:
        copies.append(Copy(logs[stream], prefix, plan.filters.of(stream)))
    return tuple(copies)


def _size_bytes(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0  # not there yet


def _appended(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)


def _close(fds: Iterable[int]) -> None:
    for fd in fds:
        os.close(fd)
