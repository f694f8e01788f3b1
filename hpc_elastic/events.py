"""What happened to agents and workers, for machines to read: events, and the sinks that they go to.

The fields are described in docs/events.md. A sink that fails loses its events and harms nobody.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import Any, Final, Protocol

from hpc_elastic.errors import HpcElasticError, UsageError
from hpc_elastic.values import dataclass, field

SCHEMA: Final = 1
PREFIX: Final = "hpc_elastic.worker.status"
PROGRESS: Final = "hpc_elastic.worker.progress"
ENTRY_POINTS: Final = "hpc_elastic.event_sinks"
# Before a file grows beyond this it is put aside; one older file is kept.
MAX_FILE_BYTES: Final = 16 * 1024 * 1024

EventMetadataValue = str | int | float | bool | None


class EventSource(str, Enum):
    """Whom an event is about."""

    AGENT = "AGENT"
    WORKER = "WORKER"


@dataclass(frozen=True)
class Event:
    """One event. `timestamp` is wall time in milliseconds, for people; no order is taken from it."""

    name: str
    source: EventSource
    timestamp: int = 0
    metadata: Mapping[str, EventMetadataValue] = field(default_factory=dict)

    def serialize(self) -> str:
        """The event as one line of JSON."""
        body = {
            "schema": SCHEMA,
            "name": self.name,
            "source": self.source.value,
            "timestamp": self.timestamp,
            "metadata": dict(self.metadata),
        }
        return json.dumps(body, default=str)

    @staticmethod
    def deserialize(data: str | Event) -> Event:
        """The event in a line; fields that a newer version adds are left out. Raises `ValueError`."""
        if isinstance(data, Event):
            return data
        try:
            body = json.loads(data)
            source = EventSource(body["source"])
            return Event(body["name"], source, int(body.get("timestamp", 0)), body.get("metadata", {}))
        except (KeyError, TypeError, ValueError, RecursionError) as bad:
            raise ValueError(f"{data[:200]!r} is no event ({bad!r}); see docs/events.md") from bad

    def __str__(self) -> str:
        return self.serialize()


@dataclass(frozen=True)
class Place:
    """Where events come from: the run's directory, if there is one, and the name of the node."""

    run_dir: Path | None = None
    node: str = "node"

    @property
    def file(self) -> Path | None:
        """`events/<node>.jsonl` in the run directory."""
        return None if self.run_dir is None else path_in(self.run_dir, self.node)


def path_in(run_dir: Path, node: str) -> Path:
    """The file of a node's events."""
    return run_dir / "events" / f"{node}.jsonl"


class Sink(Protocol):
    """Takes events. What it raises is dropped by whoever writes to it."""

    def write(self, event: Event) -> None:
        """Take one event; soon, for an agent waits for it."""
        ...

    def close(self) -> None:
        """Let go of everything; nothing follows."""
        ...


# What each status event says, None where it is not known or does not apply; see docs/events.md.
FIELDS: Final = (
    "run_id",
    "entry_point",
    "global_rank",
    "group_rank",
    "local_rank",
    "role_rank",
    "group_world_size",
    "role_world_size",
    "role",
    "worker_id",
    "hostname",
    "state",
    "total_run_time",
    "rdzv_backend",
    "attempt",
    "round",
    "raw_error",
    "agent_restarts",
    "left_out",
    "duration_ms",
    "exit_code",
    "worker_pid",
    "cause",
)

PROGRESS_FIELDS: Final = (
    "run_id",
    "role",
    "hostname",
    "attempt",
    "round",
    "group_rank",
    "group_world_size",
    "total_run_time",
    "step",
    "saved_step",
    "save_s",
    "first_step",
)


def status_event(state: str, source: EventSource, known: Mapping[str, EventMetadataValue]) -> Event:
    """The event `hpc_elastic.worker.status.<state>` of now, with all of `FIELDS`."""
    metadata = {**dict.fromkeys(FIELDS), **known, "state": state}
    return Event(f"{PREFIX}.{state}", source, time.time_ns() // 1_000_000, metadata)


def progress_event(known: Mapping[str, EventMetadataValue]) -> Event:
    """The event `hpc_elastic.worker.progress` of now: how far a node's ranks have come."""
    metadata = {name: known.get(name) for name in PROGRESS_FIELDS}
    return Event(PROGRESS, EventSource.AGENT, time.time_ns() // 1_000_000, metadata)


SinkFactory = Callable[[Place], Sink]


class NullSink:
    """Drops everything."""

    def write(self, event: Event) -> None:
        """Drop it."""

    def close(self) -> None:
        """Nothing is held."""


class ConsoleSink:
    """Writes each event as a line to this process's standard error."""

    def write(self, event: Event) -> None:
        sys.stderr.write(event.serialize() + "\n")

    def close(self) -> None:
        """Nothing is held."""


class BoundedFile:
    """Appends to a file that only its owner can read; of all that is written, at least the newest half stays.

    Before it grows beyond `max_bytes` it is put aside as `<name>.old.jsonl`, in place of an older one.
    """

    def __init__(self, path: Path, max_bytes: int = MAX_FILE_BYTES) -> None:
        self._path = path
        self._max_bytes = max_bytes
        self._fd = -1

    def write(self, block: bytes) -> None:
        """Append whole lines. Raises `OSError`."""
        if self._fd < 0:
            self._open()
        # Asked each time: an agent of this node's next life may write to the same file.
        size_bytes = os.fstat(self._fd).st_size
        if size_bytes and size_bytes + len(block) > self._max_bytes:
            self._put_aside()
        os.write(self._fd, block)  # one write with O_APPEND: lines of two writers do not mix

    def close(self) -> None:
        """Let go of the file."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def _open(self) -> None:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def _put_aside(self) -> None:
        with suppress(OSError):  # gone, or put aside by somebody else
            if os.path.samestat(os.fstat(self._fd), self._path.stat()):
                self._path.replace(self._path.with_suffix(".old.jsonl"))
        self.close()
        self._open()


class JsonLinesSink:
    """Appends each event as a line to a file, which it closes at the end."""

    def __init__(self, file: BoundedFile) -> None:
        self._file = file

    def write(self, event: Event) -> None:
        self._file.write(event.serialize().encode() + b"\n")

    def close(self) -> None:
        self._file.close()


def _open_json_lines(place: Place) -> Sink:
    path = place.file
    if path is None:
        raise UsageError("event sink jsonl: there is no run directory to write to; name null or console")
    return JsonLinesSink(BoundedFile(path))


_OURS: Final[Mapping[str, SinkFactory]] = {
    "null": lambda _: NullSink(),
    "console": lambda _: ConsoleSink(),
    "jsonl": _open_json_lines,
}
_SINKS: Final[dict[str, SinkFactory]] = dict(_OURS)


def register_sink(name: str, factory: SinkFactory) -> None:
    """Let `factory` open the sinks of this name. Another one under a name that is taken is a `ValueError`."""
    if not name:
        raise ValueError("event sink '': expected a name")
    if _SINKS.setdefault(name, factory) is not factory:
        raise ValueError(f"event sink {name!r} is registered already; choose another name")


def open_sink(name: str, place: Place) -> Sink:
    """The sink of this name: null, console, jsonl, a registered one, or that of another package.

    Raises `UsageError` for a name that nobody knows, and where another package's sink cannot be loaded.
    """
    return _factory(name)(place)


def check(name: str) -> None:
    """Raise `UsageError` where `open_sink` would, without opening anything."""
    _factory(name)


def _factory(name: str) -> SinkFactory:
    return _SINKS.get(name) or _of_another_package(name)


def record(event: Event, destination: str = "null") -> None:
    """Write one event to the sink of this name, without a run directory."""
    sink = open_sink(destination, Place())
    try:
        sink.write(event)
    finally:
        sink.close()


def _of_another_package(name: str) -> SinkFactory:
    from importlib.metadata import entry_points

    points = {point.name: point for point in entry_points(group=ENTRY_POINTS)}
    if name not in points:
        known = ", ".join(sorted({*_SINKS, *points}))
        raise UsageError(
            f"event sink {name!r} is not known; known are {known}; that of another package comes through the "
            f"entry-point group {ENTRY_POINTS}"
        )
    try:
        factory: Any = points[name].load()
    except Exception as failed:
        raise HpcElasticError(
            f"event sink {name!r} of another package ({points[name].value}) cannot be loaded: {failed!r}; "
            "repair or remove that package"
        ) from failed
    register_sink(name, factory)
    return _SINKS[name]
