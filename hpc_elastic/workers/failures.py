"""How a worker failed: error files, and what the agent makes of them and of exit statuses."""

from __future__ import annotations

import functools
import json
import signal
from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Final, ParamSpec, TypeVar

from hpc_elastic.errors import HpcElasticError, SignalException
from hpc_elastic.values import dataclass, field
from hpc_elastic.workers.bootstrap import write_error_file

P = ParamSpec("P")
R = TypeVar("R")

__all__ = [
    "ChildFailedError",
    "ErrorReport",
    "ProcessFailure",
    "SignalException",
    "describe_exit",
    "read_error",
    "record",
]

_OUTPUT_LOST: Final = 120  # the interpreter says so, when its streams cannot be flushed at the end
MAX_ERROR_FILE_BYTES: Final = 1024 * 1024


@dataclass(frozen=True)
class ErrorReport:
    """What an error file says. `traceback` may be empty, `time_s` 0.0 where the writer gave none."""

    message: str
    type: str = ""
    traceback: str = ""
    time_s: float = 0.0


@dataclass(frozen=True)
class ProcessFailure:
    """One failed worker. `exitcode` is as subprocess gives it: -n for signal n.

    `timestamp` is wall time in seconds, for people; no order is taken from it. `error_file_data` is
    the parsed error file, empty where there is none.
    """

    local_rank: int
    pid: int
    exitcode: int
    error_file: str
    message: str
    timestamp: int
    error_file_data: Mapping[str, Any] = field(default_factory=dict)
    global_rank: int = -1
    node: str = ""

    @classmethod
    def read(
        cls,
        *,
        local_rank: int,
        pid: int,
        exitcode: int,
        error_file: Path,
        now_s: float,
        global_rank: int = -1,
        node: str = "",
    ) -> ProcessFailure:
        """The failure with what the worker left in its error file, else what the status tells."""
        content = _read_object(error_file)
        report = _report(content) if content else None
        return cls(
            local_rank=local_rank,
            pid=pid,
            exitcode=exitcode,
            error_file=str(error_file),
            message=report.message if report else describe_exit(exitcode),
            timestamp=int(report.time_s if report and report.time_s else now_s),
            error_file_data=content or {},
            global_rank=global_rank,
            node=node,
        )

    @property
    def traceback(self) -> str:
        """The worker's traceback as it printed it, or an empty text."""
        return _report(self.error_file_data).traceback if self.error_file_data else ""

    def signal_name(self) -> str:
        """The name of the signal that ended the worker, or an empty text."""
        return _signal_name(-self.exitcode) if self.exitcode < 0 else ""

    def timestamp_isoformat(self) -> str:
        """The time of the failure, UTC."""
        return datetime.fromtimestamp(self.timestamp, tz=timezone.utc).isoformat(timespec="seconds")


class ChildFailedError(HpcElasticError):
    """Workers of the program `name` failed; `failures` are by global rank, the root cause first.

    The order is the one in which they were seen: no clock decides it.
    """

    def __init__(self, name: str, failures: Mapping[int, ProcessFailure]) -> None:
        if not failures:
            raise ValueError(f"ChildFailedError of {name} without a failure: expected at least one")
        self.name = name
        self.failures = dict(failures)
        super().__init__(self._sentence())

    def get_first_failure(self) -> tuple[int, ProcessFailure]:
        """The root cause: the global rank that failed first, and how."""
        return next(iter(self.failures.items()))

    def _sentence(self) -> str:
        rank, first = self.get_first_failure()
        where = f" on {first.node}" if first.node else ""
        also = [f"{other} ({failure.message})" for other, failure in list(self.failures.items())[1:]]
        who = f"rank {rank} (local rank {first.local_rank}, pid {first.pid}){where}"
        parts = [
            f"{self.name}: {who} failed first: {first.message}",
            f"its error file is {first.error_file}",
            *([f"ranks that failed after it: {', '.join(also)}"] if also else []),
            *([first.traceback] if first.traceback else []),
        ]
        return "\n".join(parts).rstrip()


def describe_exit(returncode: int) -> str:
    """An exit status in words."""
    if returncode < 0:
        return f"killed by {_signal_name(-returncode)} (signal {-returncode})"
    if returncode > 128 and (name := _signal_name(returncode - 128)):
        return f"exited with status {returncode} (128 + {name}: a program it ran was killed)"
    if returncode == _OUTPUT_LOST:
        return (
            f"exited with status {returncode} (a Python whose last output could not be written: a full disk?)"
        )
    return f"exited with status {returncode}"


def read_error(path: Path) -> ErrorReport | None:
    """The report in an error file, ours or torch's; None where there is none that can be read.

    A worker killed while it wrote may leave half of one, so nothing here raises.
    """
    content = _read_object(path)
    return _report(content) if content else None


def record(fn: Callable[P, R]) -> Callable[P, R]:
    """Leave an uncaught exception of `fn` in the error file named by TORCHELASTIC_ERROR_FILE.

    Workers started by the agent do so for their whole script without this; it is for entry points
    that something else starts.
    """

    @functools.wraps(fn)
    def recorded(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return fn(*args, **kwargs)
        except SystemExit:
            raise
        except BaseException as error:
            write_error_file(error)
            raise

    return recorded


def _read_object(path: Path) -> dict[str, Any] | None:
    try:
        with open(path, "rb") as file:
            content = json.loads(file.read(MAX_ERROR_FILE_BYTES))
    except (OSError, ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None


def _report(content: Mapping[str, Any]) -> ErrorReport:
    told = content.get("message", "")
    if not isinstance(told, dict):
        return ErrorReport(
            message=str(told),
            type=str(content.get("type", "")),
            traceback=str(content.get("traceback", "")),
            time_s=_seconds(content.get("time_s")),
        )
    # torch.distributed.elastic nests the text once more, next to "extraInfo" with the rest.
    extra = told.get("extraInfo")
    extra = extra if isinstance(extra, dict) else {}
    message = str(told.get("message", ""))
    return ErrorReport(
        message=message,
        type=message.partition(":")[0],
        traceback=str(extra.get("py_callstack", "")),
        time_s=_seconds(extra.get("timestamp")),
    )


def _seconds(value: object) -> float:
    try:
        seconds = float(str(value))
    except ValueError:
        return 0.0
    return seconds if 0 < seconds < 2**40 else 0.0


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        realtime = number - signal.SIGRTMIN
        return f"SIGRTMIN+{realtime}" if 0 <= realtime <= signal.SIGRTMAX - signal.SIGRTMIN else ""
