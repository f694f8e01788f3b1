"""The rendezvous that are compared: ours over a directory and over etcd, and torchrun's two."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.gathering import Member, counted

LOCAL: Final = "127.0.0.1"
_OPERATIONS: Final = ("create", "overwrite", "read", "names", "remove")


@dataclass(frozen=True)
class Meeting:
    """Where `nodes` of one run meet. `folder` is theirs alone; `etcd` is an endpoint, where one is needed."""

    nodes: int
    folder: Path
    etcd: str = ""
    port: int = 0


@dataclass(frozen=True)
class Handled:
    """A member by a handler, ours or torch's: their methods have the same names."""

    handler: Any
    operations: Callable[[], int]

    def join(self) -> tuple[int, int]:
        info = self.handler.next_rendezvous()
        return info.rank, info.world_size

    def leave(self) -> None:
        self.handler.shutdown()


def over_file(meeting: Meeting) -> Callable[[int], Member]:
    from hpc_elastic.backends.file import FileBackend

    return _ours("file", str(meeting.folder), meeting, counted(FileBackend, _OPERATIONS))


def over_etcd(meeting: Meeting) -> Callable[[int], Member]:
    from hpc_elastic.backends.etcd_v3 import EtcdV3Backend

    return _ours("etcd-v3", meeting.etcd, meeting, counted(EtcdV3Backend, _OPERATIONS))


def _ours(
    backend: str, endpoint: str, meeting: Meeting, operations: Callable[[], int]
) -> Callable[[int], Member]:
    import hpc_elastic.backends.etcd_endpoints
    import hpc_elastic.backends.etcd_watch
    import hpc_elastic.rendezvous.choice
    import hpc_elastic.stores.etcd
    import hpc_elastic.stores.file  # noqa: F401 - what the first call would import, in each process anew
    from hpc_elastic.rendezvous.parameters import RendezvousParameters
    from hpc_elastic.rendezvous.registry import create_handler

    if backend == "etcd-v3":
        import urllib3  # noqa: F401

    def make(number: int) -> Member:
        params = RendezvousParameters(
            backend,
            endpoint,
            meeting.folder.name,
            meeting.nodes,
            meeting.nodes,
            local_addr=LOCAL,
            node_rank=number,
            node_name=f"n{number}",
            allow_loopback=True,
        )
        return Handled(create_handler(params), operations)

    return make


def over_c10d(meeting: Meeting) -> Callable[[int], Member]:
    # With the store shared between rounds torchrun's own oracle is not reliable (two masters in one round).
    os.environ["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1"
    from torch.distributed.elastic.rendezvous.c10d_rendezvous_backend import C10dRendezvousBackend

    endpoint = f"{LOCAL}:{meeting.port}"
    return _torchs("c10d", endpoint, meeting, counted(C10dRendezvousBackend, ("get_state", "set_state")))


def over_torchs_etcd(meeting: Meeting) -> Callable[[int], Member]:
    from torch.distributed.elastic.rendezvous.etcd_rendezvous_backend import EtcdRendezvousBackend

    return _torchs(
        "etcd-v2", meeting.etcd, meeting, counted(EtcdRendezvousBackend, ("get_state", "set_state"))
    )


def _torchs(
    backend: str, endpoint: str, meeting: Meeting, operations: Callable[[], int]
) -> Callable[[int], Member]:
    import logging

    from torch.distributed.elastic.rendezvous import RendezvousParameters
    from torch.distributed.elastic.rendezvous.registry import get_rendezvous_handler

    logging.disable(logging.WARNING)

    def make(number: int) -> Member:
        more: dict[str, Any] = {"is_host": number == 0} if backend == "c10d" else {}
        params = RendezvousParameters(
            backend, endpoint, meeting.folder.name, meeting.nodes, meeting.nodes, local_addr=LOCAL, **more
        )
        return Handled(get_rendezvous_handler(params), operations)

    return make


@dataclass(frozen=True)
class Contender:
    """`prepare` imports what is needed and gives what makes a member; it runs in a process of its own."""

    name: str
    prepare: Callable[[Meeting], Callable[[int], Member]]
    is_ours: bool
    needs_etcd: bool


CONTENDERS: Final = (
    Contender("file", over_file, is_ours=True, needs_etcd=False),
    Contender("etcd-v3", over_etcd, is_ours=True, needs_etcd=True),
    Contender("torchrun c10d", over_c10d, is_ours=False, needs_etcd=False),
    Contender("torchrun etcd-v2", over_torchs_etcd, is_ours=False, needs_etcd=True),
)
