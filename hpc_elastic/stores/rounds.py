"""The store of a round: in the live part of its run, whatever backend that is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from hpc_elastic.backends.file import FileBackend
from hpc_elastic.clock import SYSTEM_CLOCK, Clock
from hpc_elastic.stores.values import DEFAULT_TIMEOUT_S, Time

if TYPE_CHECKING:
    from hpc_elastic.backends.base import Backend
    from hpc_elastic.stores.base import Store

STORES: Final = "stores"


def space_of(number: int) -> str:
    """The folder of the store of round `number`."""
    return f"{STORES}/{number}"


def open_store(
    backend: Backend, number: int, timeout: Time = DEFAULT_TIMEOUT_S, clock: Clock = SYSTEM_CLOCK
) -> Store:
    """The store of round `number` in `backend`, by the means that suit it. Nothing is written yet."""
    live: Backend = getattr(backend, "live", backend)
    space = space_of(number)
    if isinstance(live, FileBackend):
        from hpc_elastic.stores.file import FileStore

        return FileStore(live.root, space, timeout, clock)
    if hasattr(live, "swap"):
        from hpc_elastic.stores.etcd import EtcdStore, SwappingBackend

        return EtcdStore(cast(SwappingBackend, live), space, timeout, clock)
    from hpc_elastic.stores.records import RecordStore

    return RecordStore(live, space, timeout, clock)
