"""A small all-reduce over TCP for `digits_numpy.py`, in the place where a real job has NCCL, gloo or MPI."""

from __future__ import annotations

import os
import socket
import time
from dataclasses import dataclass
from io import BufferedRWPair

import numpy as np

from hpc_elastic import worker

CONNECT_S = 60.0
GREETING_S = 5.0
WELCOME = b"welcome\n"


@dataclass(frozen=True)
class Star:
    """Adds up arrays of all ranks: every rank sends its own to rank 0, which adds and answers.

    `peers` are the connections to the other ranks on rank 0, and the one to rank 0 elsewhere.
    """

    rank: int
    peers: tuple[BufferedRWPair, ...]

    @classmethod
    def connect(cls, ctx: worker.Context) -> Star:
        """Connect the ranks of this round; a rank of another round, or a stranger, is turned away."""
        if ctx.world_size == 1:
            return cls(0, ())
        # A new round may get the port of the old one: the greeting keeps their ranks apart.
        greeting = f"{os.environ.get('TORCHELASTIC_RUN_ID', '')}/{ctx.round}"
        address = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        give_up_at_s = time.monotonic() + CONNECT_S
        if ctx.rank == 0:
            return cls(0, _accept_peers(address[1], ctx.world_size, greeting, give_up_at_s))
        return cls(ctx.rank, (_greet_rank_0(address, f"{greeting} {ctx.rank}", give_up_at_s),))

    def sum(self, mine: np.ndarray) -> np.ndarray:
        """The sum of every rank's array of doubles; ConnectionError, not a hang, when a peer has died."""
        if self.rank > 0:
            _send(self.peers[0], mine)
            return _receive_like(mine, self.peers[0])
        total = mine.copy()
        for peer in self.peers:  # always in rank order: the same world gives the same bits
            total += _receive_like(mine, peer)
        for peer in self.peers:
            _send(peer, total)
        return total


def _accept_peers(
    port: int, world_size: int, greeting: str, give_up_at_s: float
) -> tuple[BufferedRWPair, ...]:
    expected = {f"{greeting} {rank}": rank for rank in range(1, world_size)}
    peers: dict[int, BufferedRWPair] = {}
    with socket.create_server(("", port)) as server:
        while len(peers) < world_size - 1:
            server.settimeout(max(0.01, give_up_at_s - time.monotonic()))
            try:
                connection, _ = server.accept()
            except TimeoutError:
                missing = sorted(set(expected.values()) - set(peers))
                raise ConnectionError(f"ranks {missing} did not connect in {CONNECT_S:g} s") from None
            connection.settimeout(GREETING_S)
            stream = connection.makefile("rwb")
            try:
                rank = expected.get(stream.readline(1000).decode(errors="replace").strip())
                if rank is not None:
                    stream.write(WELCOME)
                    stream.flush()
                    connection.settimeout(None)  # a suspended peer is not dead; a dead one's end closes
                    peers[rank] = stream
            except OSError:
                continue
    return tuple(peers[rank] for rank in sorted(peers))


def _greet_rank_0(address: tuple[str, int], greeting: str, give_up_at_s: float) -> BufferedRWPair:
    while time.monotonic() < give_up_at_s:
        try:
            connection = socket.create_connection(address, timeout=GREETING_S)
            stream = connection.makefile("rwb")
            stream.write(f"{greeting}\n".encode())
            stream.flush()
            if stream.readline(len(WELCOME)) == WELCOME:
                connection.settimeout(None)
                return stream
        except OSError:
            pass  # rank 0 of this round does not listen yet
        time.sleep(0.05)
    raise ConnectionError(f"no rank 0 of this round answers at {address[0]}:{address[1]} in {CONNECT_S:g} s")


def _send(peer: BufferedRWPair, array: np.ndarray) -> None:
    peer.write(array.tobytes())
    peer.flush()


def _receive_like(array: np.ndarray, peer: BufferedRWPair) -> np.ndarray:
    received = peer.read(array.nbytes)
    if len(received) < array.nbytes:
        raise ConnectionError("a peer of this all-reduce has gone; its own log says why")
    return np.frombuffer(received).reshape(array.shape).copy()
