"""Numbers about agents: put by name, passed on to the handler that is configured for their group.

Without a configured handler they are dropped, at the price of a look into a dictionary.
"""

from __future__ import annotations

import functools
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from typing import Final, ParamSpec, TypeVar, overload

from hpc_elastic.values import dataclass

GROUP: Final = "hpc_elastic"

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True)
class MetricData:
    """One number. `timestamp` is wall time in whole seconds, for people."""

    timestamp: int
    group_name: str
    name: str
    value: float


class MetricHandler(ABC):
    """Takes numbers. What it raises is dropped."""

    @abstractmethod
    def emit(self, metric_data: MetricData) -> None:
        """Take one number; soon, for an agent waits for it."""


class NullMetricHandler(MetricHandler):
    """Drops everything."""

    def emit(self, metric_data: MetricData) -> None:
        """Drop it."""


class ConsoleMetricHandler(MetricHandler):
    """Writes each number as a line to this process's standard error."""

    def emit(self, metric_data: MetricData) -> None:
        sys.stderr.write(
            f"[{metric_data.timestamp}][{metric_data.group_name}]: {metric_data.name}={metric_data.value:g}\n"
        )


_NULL: Final = NullMetricHandler()
_HANDLERS: Final[dict[str | None, MetricHandler]] = {}


def configure(handler: MetricHandler, group: str | None = None) -> None:
    """Pass the numbers of `group` to `handler`; without a group, those of all groups without their own."""
    _HANDLERS[group] = handler


def put_metric(metric_name: str, metric_value: float, metric_group: str = GROUP) -> None:
    """Pass one number on. Never raises."""
    handler = _HANDLERS.get(metric_group) or _HANDLERS.get(None, _NULL)
    if handler is _NULL:
        return
    now_s = time.time_ns() // 1_000_000_000
    with suppress(Exception):  # a failing handler must not decide over a run
        handler.emit(MetricData(now_s, metric_group, metric_name, metric_value))


@overload
def prof(fn: Callable[P, R], group: str = ...) -> Callable[P, R]: ...
@overload
def prof(fn: None = None, group: str = ...) -> Callable[[Callable[P, R]], Callable[P, R]]: ...


def prof(
    fn: Callable[P, R] | None = None, group: str = GROUP
) -> Callable[P, R] | Callable[[Callable[P, R]], Callable[P, R]]:
    """Put `<name>.duration.ms`, and `<name>.success` or `<name>.failure`, for each call of a function.

    The name is `Class.method`, or `module.function` outside a class.
    """

    def wrap(measured: Callable[P, R]) -> Callable[P, R]:
        name = _name_of(measured)

        @functools.wraps(measured)
        def timed(*args: P.args, **kwargs: P.kwargs) -> R:
            began_ns, outcome = time.monotonic_ns(), "failure"
            try:
                value = measured(*args, **kwargs)
                outcome = "success"
                return value
            finally:
                put_metric(f"{name}.{outcome}", 1, group)
                put_metric(f"{name}.duration.ms", (time.monotonic_ns() - began_ns) // 1_000_000, group)

        return timed

    return wrap if fn is None else wrap(fn)


def _name_of(function: Callable[..., object]) -> str:
    words = function.__qualname__.replace("<locals>.", "").split(".")
    owner = words[-2] if len(words) > 1 else function.__module__.rpartition(".")[2]
    return f"{owner}.{words[-1]}"
