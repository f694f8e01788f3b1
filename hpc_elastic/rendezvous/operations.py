"""The driver's requests to a backend as values, so that a simulation can come between any two of them."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeVar

from hpc_elastic.backends.base import Backend
from hpc_elastic.values import dataclass

T = TypeVar("T")


@dataclass(frozen=True)
class Read:
    key: str


@dataclass(frozen=True)
class Names:
    folder: str


@dataclass(frozen=True)
class Create:
    key: str
    value: bytes


@dataclass(frozen=True)
class Overwrite:
    key: str
    value: bytes


@dataclass(frozen=True)
class Remove:
    key: str


Operation = Read | Names | Create | Overwrite | Remove
Trip = Generator[Operation, Any, T]


def perform(backend: Backend, operation: Operation) -> object:
    """The answer of `backend`; raises `BackendUnavailable`."""
    match operation:
        case Read(key):
            return backend.read(key)
        case Names(folder):
            return backend.names(folder)
        case Create(key, value):
            return backend.create(key, value)
        case Overwrite(key, value):
            backend.overwrite(key, value)
        case Remove(key):
            backend.remove(key)
    return None


def finish(trip: Trip[T], backend: Backend) -> T:
    """Carry out a trip from its beginning to its end; its result."""
    try:
        operation = next(trip)
        while True:
            operation = _advance(trip, backend, operation)
    except StopIteration as stop:
        result: T = stop.value
        return result


def _advance(trip: Trip[T], backend: Backend, operation: Operation) -> Operation:
    try:
        answer = perform(backend, operation)
    except Exception as failed:  # noqa: BLE001 - given to the trip, which decides
        return trip.throw(failed)
    return trip.send(answer)
