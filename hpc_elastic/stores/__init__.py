"""Key-value stores that the members of a round share; the names load on first use."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hpc_elastic.errors import RanksMissing as RanksMissing
    from hpc_elastic.errors import StoreOutcomeUnknown as StoreOutcomeUnknown
    from hpc_elastic.errors import StoreTimedOut as StoreTimedOut
    from hpc_elastic.stores.base import Store as Store
    from hpc_elastic.stores.coordination import barrier as barrier
    from hpc_elastic.stores.coordination import get_all as get_all
    from hpc_elastic.stores.coordination import synchronize as synchronize
    from hpc_elastic.stores.etcd import EtcdStore as EtcdStore
    from hpc_elastic.stores.file import FileStore as FileStore
    from hpc_elastic.stores.memory import MemoryStore as MemoryStore
    from hpc_elastic.stores.prefixed import PrefixedStore as PrefixedStore
    from hpc_elastic.stores.records import RecordStore as RecordStore
    from hpc_elastic.stores.rounds import open_store as open_store

_HOMES = {
    "EtcdStore": "hpc_elastic.stores.etcd",
    "FileStore": "hpc_elastic.stores.file",
    "MemoryStore": "hpc_elastic.stores.memory",
    "PrefixedStore": "hpc_elastic.stores.prefixed",
    "RanksMissing": "hpc_elastic.errors",
    "RecordStore": "hpc_elastic.stores.records",
    "Store": "hpc_elastic.stores.base",
    "StoreOutcomeUnknown": "hpc_elastic.errors",
    "StoreTimedOut": "hpc_elastic.errors",
    "barrier": "hpc_elastic.stores.coordination",
    "open_store": "hpc_elastic.stores.rounds",
    "get_all": "hpc_elastic.stores.coordination",
    "synchronize": "hpc_elastic.stores.coordination",
}

__all__ = [
    "EtcdStore",
    "FileStore",
    "MemoryStore",
    "PrefixedStore",
    "RanksMissing",
    "RecordStore",
    "Store",
    "StoreOutcomeUnknown",
    "StoreTimedOut",
    "barrier",
    "get_all",
    "open_store",
    "synchronize",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return sorted(__all__)
