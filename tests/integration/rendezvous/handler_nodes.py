"""Handlers of one run, and threads as its nodes."""

from __future__ import annotations

import os
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from hpc_elastic.rendezvous import RendezvousHandler, RendezvousInfo, RendezvousParameters, create_handler
from hpc_elastic.rendezvous.handler import RecordRendezvousHandler

SOON_S = 60.0
LONG_S = 60.0  # a last call that nobody has to be in time for
TIMES = {"last_call_timeout": 0.3, "heartbeat": 3, "join_window": 0.1, "close_timeout": SOON_S}
QUICK: dict[str, Any] = {"allow_loopback": True, **TIMES}


class Nodes:
    """Handlers of one run over one backend, and threads to call them in."""

    def __init__(self, backend: str, endpoint: str) -> None:
        self.backend = backend
        self.endpoint = endpoint
        self.run_id = f"run {os.urandom(4).hex()}"
        self.threads = ThreadPoolExecutor(8)
        self.made: list[RecordRendezvousHandler] = []

    def make(self, rank: int = 0, least: int = 2, most: int = 3, **options: Any) -> RecordRendezvousHandler:
        params = RendezvousParameters(
            self.backend,
            self.endpoint,
            self.run_id,
            least,
            most,
            node_rank=rank,
            config={**QUICK, "node_name": f"n{rank}", **options},
        )
        handler = create_handler(params)
        assert isinstance(handler, RecordRendezvousHandler)
        self.made.append(handler)
        return handler

    def begin(self, *handlers: RendezvousHandler) -> list[Future[RendezvousInfo]]:
        return [self.threads.submit(handler.next_rendezvous) for handler in handlers]

    def meet(self, *handlers: RendezvousHandler) -> list[RendezvousInfo]:
        return [one.result(SOON_S) for one in self.begin(*handlers)]

    def end(self) -> None:
        for handler in self.made:
            handler.shutdown()
        self.threads.shutdown()
