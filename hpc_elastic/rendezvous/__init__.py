"""How the nodes of a run agree on who is in it; the public names load on first use."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hpc_elastic.rendezvous.api import RendezvousClosedError as RendezvousClosedError
    from hpc_elastic.rendezvous.api import RendezvousClosedException as RendezvousClosedException
    from hpc_elastic.rendezvous.api import RendezvousConnectionError as RendezvousConnectionError
    from hpc_elastic.rendezvous.api import RendezvousError as RendezvousError
    from hpc_elastic.rendezvous.api import RendezvousExhaustedError as RendezvousExhaustedError
    from hpc_elastic.rendezvous.api import RendezvousGracefulExitError as RendezvousGracefulExitError
    from hpc_elastic.rendezvous.api import RendezvousHandler as RendezvousHandler
    from hpc_elastic.rendezvous.api import RendezvousInfo as RendezvousInfo
    from hpc_elastic.rendezvous.api import RendezvousNonRetryableError as RendezvousNonRetryableError
    from hpc_elastic.rendezvous.api import RendezvousParameters as RendezvousParameters
    from hpc_elastic.rendezvous.api import RendezvousStateError as RendezvousStateError
    from hpc_elastic.rendezvous.api import RendezvousStoreInfo as RendezvousStoreInfo
    from hpc_elastic.rendezvous.api import RendezvousTimeout as RendezvousTimeout
    from hpc_elastic.rendezvous.api import RendezvousTimeoutError as RendezvousTimeoutError
    from hpc_elastic.rendezvous.api import RendezvousTimeoutException as RendezvousTimeoutException
    from hpc_elastic.rendezvous.handler import EtcdRendezvousHandler as EtcdRendezvousHandler
    from hpc_elastic.rendezvous.registry import RendezvousHandlerCreator as RendezvousHandlerCreator
    from hpc_elastic.rendezvous.registry import RendezvousHandlerRegistry as RendezvousHandlerRegistry
    from hpc_elastic.rendezvous.registry import create_handler as create_handler
    from hpc_elastic.rendezvous.registry import get_registry as get_registry
    from hpc_elastic.rendezvous.url import handler_from_url as handler_from_url
    from hpc_elastic.stores.etcd import EtcdStore as EtcdStore

_HOMES = {
    "EtcdRendezvousHandler": "hpc_elastic.rendezvous.handler",
    "EtcdStore": "hpc_elastic.stores.etcd",
    "RendezvousClosedError": "hpc_elastic.rendezvous.api",
    "RendezvousClosedException": "hpc_elastic.rendezvous.api",
    "RendezvousConnectionError": "hpc_elastic.rendezvous.api",
    "RendezvousError": "hpc_elastic.rendezvous.api",
    "RendezvousExhaustedError": "hpc_elastic.rendezvous.api",
    "RendezvousGracefulExitError": "hpc_elastic.rendezvous.api",
    "RendezvousHandler": "hpc_elastic.rendezvous.api",
    "RendezvousHandlerCreator": "hpc_elastic.rendezvous.registry",
    "RendezvousHandlerRegistry": "hpc_elastic.rendezvous.registry",
    "RendezvousInfo": "hpc_elastic.rendezvous.api",
    "RendezvousNonRetryableError": "hpc_elastic.rendezvous.api",
    "RendezvousParameters": "hpc_elastic.rendezvous.api",
    "RendezvousStateError": "hpc_elastic.rendezvous.api",
    "RendezvousStoreInfo": "hpc_elastic.rendezvous.api",
    "RendezvousTimeout": "hpc_elastic.rendezvous.api",
    "RendezvousTimeoutError": "hpc_elastic.rendezvous.api",
    "RendezvousTimeoutException": "hpc_elastic.rendezvous.api",
    "create_handler": "hpc_elastic.rendezvous.registry",
    "get_registry": "hpc_elastic.rendezvous.registry",
    "handler_from_url": "hpc_elastic.rendezvous.url",
}

__all__ = [
    "EtcdRendezvousHandler",
    "EtcdStore",
    "RendezvousClosedError",
    "RendezvousClosedException",
    "RendezvousConnectionError",
    "RendezvousError",
    "RendezvousExhaustedError",
    "RendezvousGracefulExitError",
    "RendezvousHandler",
    "RendezvousHandlerCreator",
    "RendezvousHandlerRegistry",
    "RendezvousInfo",
    "RendezvousNonRetryableError",
    "RendezvousParameters",
    "RendezvousStateError",
    "RendezvousStoreInfo",
    "RendezvousTimeout",
    "RendezvousTimeoutError",
    "RendezvousTimeoutException",
    "create_handler",
    "get_registry",
    "handler_from_url",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return sorted(__all__)
