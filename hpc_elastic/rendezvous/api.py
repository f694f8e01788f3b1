"""The rendezvous as its users see it: errors, parameters, handlers and what they hand out."""

from __future__ import annotations

import socket
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar, Final

from hpc_elastic.errors import (
    RendezvousClosedError,
    RendezvousConnectionError,
    RendezvousError,
    RendezvousExhaustedError,
    RendezvousGracefulExitError,
    RendezvousStateError,
    RendezvousTimeoutError,
)
from hpc_elastic.rendezvous.addresses import is_loopback
from hpc_elastic.rendezvous.parameters import RendezvousParameters, RendezvousTimeout
from hpc_elastic.values import dataclass

if TYPE_CHECKING:
    from hpc_elastic.stores.base import Store

__all__ = [
    "RendezvousClosedError",
    "RendezvousClosedException",
    "RendezvousConnectionError",
    "RendezvousError",
    "RendezvousExhaustedError",
    "RendezvousGracefulExitError",
    "RendezvousHandler",
    "RendezvousInfo",
    "RendezvousNonRetryableError",
    "RendezvousParameters",
    "RendezvousStateError",
    "RendezvousStoreInfo",
    "RendezvousTimeout",
    "RendezvousTimeoutError",
    "RendezvousTimeoutException",
]

# The names that an older reference had for three of them.
RendezvousClosedException = RendezvousClosedError
RendezvousTimeoutException = RendezvousTimeoutError
RendezvousNonRetryableError = RendezvousStateError

STORE_INFO_TIMEOUT_S: Final = 300.0


@dataclass(frozen=True)
class RendezvousStoreInfo:
    """Where the ranks of a round meet for their own communication: a port on the host of rank 0."""

    MASTER_ADDR_KEY: ClassVar[str] = "MASTER_ADDR"
    MASTER_PORT_KEY: ClassVar[str] = "MASTER_PORT"
    master_addr: str
    port: int

    @property
    def addr(self) -> str:
        """The same as `master_addr`."""
        return self.master_addr

    @property
    def master_port(self) -> int:
        """The same as `port`."""
        return self.port

    @staticmethod
    def build(
        rank: int, store: Store, local_addr: str | None = None, server_port: int | None = None
    ) -> RendezvousStoreInfo:
        """What rank 0 publishes in `store`, for all ranks.

        Rank 0 takes `local_addr` and `server_port` where they are given, else the endpoint of the store
        (`master_addr_port`) where it has one, else this host and a port that is free. The others wait
        for it: 300 s, then `RendezvousTimeoutError`.
        """
        if rank == 0:
            address, port = _own_endpoint(store, local_addr, server_port)
            store.set(RendezvousStoreInfo.MASTER_ADDR_KEY, address)
            store.set(RendezvousStoreInfo.MASTER_PORT_KEY, str(port))
        try:
            address = store.get(RendezvousStoreInfo.MASTER_ADDR_KEY, STORE_INFO_TIMEOUT_S).decode()
            port = int(store.get(RendezvousStoreInfo.MASTER_PORT_KEY, STORE_INFO_TIMEOUT_S))
        except LookupError as late:
            raise RendezvousTimeoutError(
                f"rank {rank}: rank 0 has not published its address and port in {STORE_INFO_TIMEOUT_S:g} s; "
                "look at its log"
            ) from late
        except ValueError as bad:
            raise RendezvousStateError(
                f"rank {rank}: what stands under {RendezvousStoreInfo.MASTER_ADDR_KEY} and "
                f"{RendezvousStoreInfo.MASTER_PORT_KEY} is no address with a port ({bad}); "
                "something else writes these keys"
            ) from bad
        return RendezvousStoreInfo(address, port)


class RendezvousInfo:
    """What a node is given when a round has started. Everything is read-only.

    `rank` is the place of this node in the round and `world_size` the number of nodes. `participants`
    are the names of all nodes by rank, `wait_list` those that waited for a place when it was asked for.
    `store` is private to the round. `failures` are those of the run before the round, None where the
    rendezvous keeps no count of what `RendezvousHandler.note_failure` tells it.
    """

    def __init__(
        self,
        store: Store,
        rank: int,
        world_size: int,
        bootstrap_store_info: RendezvousStoreInfo | None,
        participants: tuple[str, ...] = (),
        wait_list: Callable[[], tuple[str, ...]] | tuple[str, ...] = (),
        round_number: int = 0,
        failures: int | None = None,
    ) -> None:
        self._store = store
        self._rank = rank
        self._world_size = world_size
        self._bootstrap_store_info = bootstrap_store_info
        self._participants = participants
        self._wait_list = wait_list
        self._round = round_number
        self._failures = failures

    @property
    def store(self) -> Store:
        return self._store

    @property
    def rank(self) -> int:
        return self._rank

    @property
    def world_size(self) -> int:
        return self._world_size

    @property
    def bootstrap_store_info(self) -> RendezvousStoreInfo | None:
        return self._bootstrap_store_info

    @property
    def participants(self) -> tuple[str, ...]:
        return self._participants

    @property
    def wait_list(self) -> tuple[str, ...]:
        return self._wait_list if isinstance(self._wait_list, tuple) else self._wait_list()

    @property
    def round(self) -> int:
        """The number of the round, the same for all its members."""
        return self._round

    @property
    def failures(self) -> int | None:
        return self._failures


class RendezvousHandler(ABC):
    """One node's way into the rounds of one run."""

    @abstractmethod
    def get_backend(self) -> str:
        """The name of the backend, as it was asked for."""

    @property
    def use_agent_store(self) -> bool:
        """Whether workers may use the agent's store as their own; the port of the master is theirs."""
        return False

    @abstractmethod
    def next_rendezvous(self) -> RendezvousInfo:
        """Take part in the next round: returns once it has started.

        Raises `RendezvousClosedError`, `RendezvousTimeoutError`, `RendezvousConnectionError` or
        `RendezvousStateError`.
        """

    @abstractmethod
    def is_closed(self) -> bool:
        """Whether no further round will be formed."""

    @abstractmethod
    def set_closed(self) -> None:
        """Close the rendezvous for all nodes, present and future."""

    def set_done(self) -> None:
        """Close the rendezvous because all nodes of the round are done; each of them calls this."""
        self.set_closed()

    def note_failure(self, node_rank: int, rank: int, exit_code: int, message: str) -> None:  # noqa: B027 - as below
        """Say that this round is over since worker `rank` on node `node_rank` has failed; each node may.

        Where the rendezvous keeps a record, the failure is counted in it, once, for all nodes and for
        later starts of the run. The next round is asked for as ever.
        """

    @abstractmethod
    def num_nodes_waiting(self) -> int:
        """How many nodes wait for a new round. Above 0 the members are to ask for the next one."""

    @abstractmethod
    def get_run_id(self) -> str:
        """The id of the run, the same for all nodes that are to meet."""

    @abstractmethod
    def shutdown(self) -> bool:
        """Leave, and give everything back; whether the others were told. It closes nothing."""

    def pre_shutdown(self) -> None:  # noqa: B027 - few have anything to do
        """What is to be done before workers are stopped for a shutdown."""


def _own_endpoint(store: Store, local_addr: str | None, server_port: int | None) -> tuple[str, int]:
    address, port = getattr(store, "master_addr_port", None) or ("", 0)
    return local_addr or address or own_address(), server_port or port or _free_port()


def own_address() -> str:
    """A name of this host, one that is not loopback where there is one."""
    names = (socket.gethostname(), socket.getfqdn())
    return next((name for name in names if not is_loopback(name)), names[0])


def _free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])
