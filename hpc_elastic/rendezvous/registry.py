"""Which rendezvous backends there are: ours, those registered by hand, and those of other packages."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from threading import Lock
from typing import TYPE_CHECKING, Final

from hpc_elastic.errors import RendezvousError
from hpc_elastic.rendezvous.api import RendezvousHandler, RendezvousParameters

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

RendezvousHandlerCreator = Callable[[RendezvousParameters], RendezvousHandler]

ENTRY_POINTS: Final = "hpc_elastic.rendezvous_backends"
_OURS: Final = {
    "etcd": "create_etcd",
    "etcd-v2": "create_etcd",
    "etcd-v3": "create_etcd",
    "file": "create_file",
    "memory": "create_memory",
    "static": "create_static",
}


class RendezvousHandlerRegistry:
    """Creators of handlers by the names of their backends.

    A name that nobody registered is looked up among the entry points of all installed packages, in the
    group `hpc_elastic.rendezvous_backends`: `mine = "my_package:create"`.
    """

    def __init__(self) -> None:
        self._creators: dict[str, RendezvousHandlerCreator] = {}
        self._lock = Lock()

    def register(self, backend: str, creator: RendezvousHandlerCreator) -> None:
        """Let `creator` make the handlers of `backend`.

        The same creator may be registered again; another one under a name that is taken is a
        `ValueError`, and so is an empty name.
        """
        if not backend:
            raise ValueError("rendezvous backend '': expected a name")
        with self._lock:
            known = self._creators.setdefault(backend, creator)
        if known is not creator:
            raise ValueError(
                f"rendezvous backend {backend!r} is registered with {known!r} already, so {creator!r} cannot "
                "be; choose another name"
            )

    def create_handler(self, params: RendezvousParameters) -> RendezvousHandler:
        """The handler that `params` describe.

        Raises `ValueError` for a backend that nobody knows, and `RuntimeError` where its creator gives
        the handler of another.
        """
        creator = self._find(params.backend)
        handler = creator(params)
        made = handler.get_backend()
        if made != params.backend:
            raise RuntimeError(
                f"rendezvous backend {params.backend!r} was asked for, and {creator!r} made a handler of "
                f"{made!r}; correct that creator"
            )
        return handler

    def names(self) -> list[str]:
        """The backends that can be asked for, in alphabetical order."""
        return sorted({*self._creators, *(point.name for point in _entry_points())})

    def _find(self, backend: str) -> RendezvousHandlerCreator:
        known = self._creators.get(backend)
        if known is not None:
            return known
        for point in _entry_points():
            if point.name == backend:
                self.register(backend, _load(point))
                return self._creators[backend]
        if backend == "auto":
            raise ValueError(
                "rendezvous backend 'auto' is decided by the agents of an attempt together; name one of "
                f"{', '.join(self.names())}"
            )
        raise ValueError(
            f"rendezvous backend {backend!r} is not known; known are {', '.join(self.names())}; that of "
            f"another package comes through the entry-point group {ENTRY_POINTS}"
        )


def _entry_points() -> tuple[EntryPoint, ...]:
    from importlib.metadata import entry_points

    return tuple(entry_points(group=ENTRY_POINTS))


def _load(point: EntryPoint) -> RendezvousHandlerCreator:
    try:
        creator: RendezvousHandlerCreator = point.load()
    except Exception as failed:
        raise RendezvousError(
            f"rendezvous backend {point.name!r} of another package ({point.value}) cannot be loaded: "
            f"{failed!r}; repair or remove that package"
        ) from failed
    return creator


def _ours(name: str) -> RendezvousHandlerCreator:
    def create(params: RendezvousParameters) -> RendezvousHandler:
        handler: RendezvousHandler = getattr(import_module("hpc_elastic.rendezvous.creators"), name)(params)
        return handler

    return create


def _with_ours() -> RendezvousHandlerRegistry:
    registry = RendezvousHandlerRegistry()
    for backend, name in _OURS.items():
        registry.register(backend, _ours(name))
    return registry


_REGISTRY: Final = _with_ours()


def get_registry() -> RendezvousHandlerRegistry:
    """The registry of this process, with our own backends in it."""
    return _REGISTRY


def create_handler(params: RendezvousParameters) -> RendezvousHandler:
    """The handler that `params` describe, by the registry of this process."""
    return _REGISTRY.create_handler(params)
