"""The allowed values of a `WorkerSpec`, field by field."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Mapping
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final

from hpc_elastic import settings
from hpc_elastic.errors import BadWorkerSpec, UsageError
from hpc_elastic.workers.process import Kind

if TYPE_CHECKING:
    from hpc_elastic.agent.api import WorkerSpec

Rule = tuple[str, Callable[[Any], bool], str]

SPLIT_CPUS: Final = "exclusive"
_LONGEST_S: Final = 1e9
_HOST: Final = re.compile(r"[A-Za-z0-9._:%-]+")


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_duration(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < _LONGEST_S


def _is_text(value: object) -> bool:
    # A text with a NUL in it cannot be handed to a process.
    return isinstance(value, str) and bool(value) and "\0" not in value


def _is_words(value: Any) -> bool:
    return value is None or (isinstance(value, (list, tuple, set, frozenset)) and all(map(_is_text, value)))


def _is_host(value: object) -> bool:
    return value is None or (isinstance(value, str) and _HOST.fullmatch(value) is not None)


def _is_path(value: object) -> bool:
    return value is None or isinstance(value, PurePath) or _is_text(value)


def _is_logs_specs(value: object) -> bool:
    return value is None or callable(getattr(value, "console", None))


def _is_handler(value: object) -> bool:
    return all(callable(getattr(value, name, None)) for name in ("next_rendezvous", "get_run_id", "shutdown"))


def _is_entrypoint(value: object) -> bool:
    return callable(value) or _is_text(value)


_RULES: Final[tuple[Rule, ...]] = (
    ("role", _is_text, "a name"),
    (
        "local_world_size",
        lambda value: _is_whole(value) and 0 < value <= settings.MOST_WORKERS,
        f"a whole number above 0, up to {settings.MOST_WORKERS}",
    ),
    ("rdzv_handler", _is_handler, "a RendezvousHandler"),
    ("entrypoint", _is_entrypoint, "a callable, or a command as str"),
    ("max_restarts", lambda value: _is_whole(value) and value >= 0, "a whole number from 0 on"),
    ("monitor_interval", _is_duration, f"seconds, above 0 and below {_LONGEST_S:g}"),
    ("master_addr", _is_host, "None, or one host name or address"),
    ("local_addr", _is_host, "None, or one host name or address"),
    (
        "master_port",
        lambda value: value is None or (_is_whole(value) and 0 < value < 65536),
        "None, or a port from 1 to 65535",
    ),
    ("event_log_handler", _is_text, "the name of an event sink"),
    ("logs_specs", _is_logs_specs, "None, or LogsSpecs"),
    ("log_dir", _is_path, "None, or a directory's path"),
    ("duplicate_stdout_filters", _is_words, "None, or a list of texts that are not empty"),
    ("duplicate_stderr_filters", _is_words, "None, or a list of texts that are not empty"),
    # A fork takes the locks of this process's other threads along, one of which keeps it in the run.
    ("start_method", lambda value: value == "spawn", "'spawn'"),
    ("virtual_local_rank", lambda value: isinstance(value, bool), "True or False"),
    ("numa_options", lambda value: value in (None, SPLIT_CPUS), f"None or {SPLIT_CPUS!r}"),
)


def arguments(given: Any) -> tuple[Any, ...]:
    """`args` as a tuple. Raises `BadWorkerSpec`, also for a text, which would come apart into its letters."""
    if isinstance(given, (str, bytes, Mapping)) or not isinstance(given, Iterable):
        raise BadWorkerSpec(f"WorkerSpec.args={given!r}: expected a tuple or a list of arguments")
    return tuple(given)


def _is_argument(word: object) -> bool:
    return isinstance(word, (int, float)) or (isinstance(word, str) and "\0" not in word)


def check(spec: WorkerSpec) -> None:
    """Raise `BadWorkerSpec` for the first field whose value is not allowed."""
    for name, is_allowed, allowed in _RULES:
        value = getattr(spec, name)
        if not is_allowed(value):
            raise BadWorkerSpec(f"WorkerSpec.{name}={value!r}: expected {allowed}")
    if isinstance(spec.entrypoint, str) and not all(map(_is_argument, spec.args)):
        raise BadWorkerSpec(f"WorkerSpec.args={spec.args!r}: expected texts and numbers for a command")
    given = [name for name in ("log_dir", "redirects", "tee") if getattr(spec, name) is not None]
    if spec.logs_specs is not None and given:
        raise BadWorkerSpec(
            f"WorkerSpec.logs_specs={spec.logs_specs!r} beside {', '.join(given)}: expected one or the other"
        )
    try:
        logs_of(spec)
    except UsageError as bad:
        raise BadWorkerSpec(f"WorkerSpec.{bad}") from bad


def timeout_s(name: str, given: Any) -> float:
    """A time of an agent's constructor in seconds, 0 for none. Raises `BadWorkerSpec`."""
    if given != 0 and not _is_duration(given):
        raise BadWorkerSpec(f"{name}={given!r}: expected seconds, from 0 on and below {_LONGEST_S:g}")
    return float(given)


def logs_of(spec: WorkerSpec) -> Any:
    """The `LogsSpecs` of a spec, from its own fields where it has none; checked."""
    from hpc_elastic.agent.logs_specs import LogsSpecs

    specs = spec.logs_specs or LogsSpecs(spec.log_dir, spec.redirects, spec.tee)
    specs.console()
    return specs


def kind_of(command: str) -> Kind:
    """How a command is run."""
    return Kind.SCRIPT if command.endswith(".py") else Kind.COMMAND


def warn_of_fn(stacklevel: int) -> None:
    """Say that `fn` will go."""
    warnings.warn("WorkerSpec.fn: name it entrypoint instead", DeprecationWarning, stacklevel=stacklevel)
