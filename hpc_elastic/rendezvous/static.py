"""A world that is fixed before it starts: the environment tells who is in it, and nobody is waited for."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from hpc_elastic.backends.file import FileBackend
from hpc_elastic.errors import BadEnvironment, RendezvousStateError
from hpc_elastic.rendezvous import keys
from hpc_elastic.rendezvous.api import (
    RendezvousHandler,
    RendezvousInfo,
    RendezvousParameters,
    RendezvousStoreInfo,
    own_address,
)
from hpc_elastic.stores.base import Store
from hpc_elastic.stores.memory import MemoryStore
from hpc_elastic.stores.rounds import open_store
from hpc_elastic.values import dataclass

# Where each fact is looked for in the environment, the first that is set counts.
_RANK: Final = ("HPC_ELASTIC_NODE_INDEX", "GROUP_RANK", "NODE_RANK")
_WORLD: Final = ("HPC_ELASTIC_NODE_COUNT", "GROUP_WORLD_SIZE")
_MASTER_PORT: Final = 29400


@dataclass(frozen=True)
class FixedWorld:
    """`directory` is where the store is, on a file system that all nodes share; empty for a world of one."""

    run_id: str
    rank: int
    world_size: int
    master: RendezvousStoreInfo
    directory: str
    restart_count: int = 0


class StaticRendezvousHandler(RendezvousHandler):
    """Each call of `next_rendezvous` gives the fixed world at once, the next time as its next round.

    Nodes that do not come, or die, are not noticed here. It is never closed and nobody waits.
    """

    def __init__(self, world: FixedWorld) -> None:
        self._world = world
        self._round = 0
        self._is_shut_down = False

    @classmethod
    def parse(cls, params: RendezvousParameters, env: Mapping[str, str]) -> StaticRendezvousHandler:
        """The world that parameters and environment tell.

        The rank is the option `rank`, else HPC_ELASTIC_NODE_INDEX, GROUP_RANK or NODE_RANK, else
        `node_rank`. The size is `min_nodes`, or HPC_ELASTIC_NODE_COUNT or GROUP_WORLD_SIZE where that is
        1. The master is `endpoint`, `HOST[:PORT]`, else MASTER_ADDR and MASTER_PORT. The store is in the
        directory `store_dir`, else HPC_ELASTIC_RUN_DIR. Raises `ValueError` for an option and
        `BadEnvironment` for a variable that cannot be used.
        """
        if params.max_nodes != params.min_nodes:
            raise ValueError(
                f"min_nodes {params.min_nodes} and max_nodes {params.max_nodes}: a static world has "
                "one size; make them equal, or choose another backend"
            )
        world_size = params.min_nodes
        if world_size == 1:
            world_size = _number(env, _WORLD, default=1)
        rank = params.get_as_int("rank")
        rank = _number(env, _RANK, default=params.node_rank) if rank is None else rank
        if not 0 <= rank < world_size:
            raise ValueError(
                f"rank {rank} in a static world of {world_size} nodes: expected 0 to {world_size - 1}"
            )
        directory = str(params.get("store_dir", env.get("HPC_ELASTIC_RUN_DIR", "")))
        if world_size > 1 and not directory:
            raise ValueError(
                f"a static world of {world_size} nodes needs a place for its store: give the option "
                "store_dir, or HPC_ELASTIC_RUN_DIR, with a directory that all nodes share"
            )
        master = _master(params, env, world_size)
        return cls(
            FixedWorld(
                params.run_id, rank, world_size, master, directory, params.get_as_int("restart_count", 0) or 0
            )
        )

    def get_backend(self) -> str:
        return "static"

    def get_run_id(self) -> str:
        return self._world.run_id

    def next_rendezvous(self) -> RendezvousInfo:
        if self._is_shut_down:
            raise RendezvousStateError(
                f"run {self._world.run_id}: this handler was shut down; create another"
            )
        self._round += 1
        world, store = self._world, self._store()
        store.master_addr_port = (world.master.master_addr, world.master.port)
        names = tuple(map(str, range(world.world_size)))
        return RendezvousInfo(
            store, world.rank, world.world_size, world.master, participants=names, round_number=self._round
        )

    def is_closed(self) -> bool:
        return False

    def set_closed(self) -> None:
        """Nothing: a fixed world has nobody to tell."""

    def num_nodes_waiting(self) -> int:
        return 0

    def shutdown(self) -> bool:
        self._is_shut_down = True
        return True

    def _store(self) -> Store:
        if self._world.world_size == 1:
            return MemoryStore()
        name = f"static-{keys.segment(self._world.run_id)}-{self._world.restart_count}"
        return open_store(FileBackend(Path(self._world.directory) / name), self._round)


def _master(params: RendezvousParameters, env: Mapping[str, str], world_size: int) -> RendezvousStoreInfo:
    endpoint = params.endpoint.strip()
    if endpoint:
        bare = endpoint.count(":") > 1 and not endpoint.startswith("[")
        host, colon, port = (endpoint, "", "") if bare else endpoint.rpartition(":")
        if not colon or endpoint.endswith("]"):
            host, port = endpoint, str(_MASTER_PORT)
        if not port.isascii() or not port.isdecimal() or not 0 < int(port) < 65536:
            raise ValueError(f"rendezvous endpoint {endpoint}: {port!r} is no port from 1 to 65535")
        return RendezvousStoreInfo(host.strip("[]"), int(port))
    host = env.get("MASTER_ADDR", "")
    if not host and world_size > 1:
        raise ValueError(
            "a static world of several nodes needs its master: give HOST:PORT as endpoint, or MASTER_ADDR"
        )
    return RendezvousStoreInfo(host or own_address(), _number(env, ("MASTER_PORT",), default=_MASTER_PORT))


def _number(env: Mapping[str, str], names: tuple[str, ...], *, default: int) -> int:
    for name in names:
        text = env.get(name, "")
        if text:
            if not text.isascii() or not text.isdecimal() or len(text) > 9:
                raise BadEnvironment(f"{name}={text}: expected a whole number; set or unset it")
            return int(text)
    return default
