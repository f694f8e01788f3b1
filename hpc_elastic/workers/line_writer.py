"""Whole lines for a console that others write to as well."""

from __future__ import annotations

import os
import select
import stat
import threading
from typing import Final

# What a pipe takes in one piece, between the pieces of others (pipe(7)); Linux has 4096.
PIPE_BUF: Final = select.PIPE_BUF


class LineWriter:
    """Writes blocks of whole lines to the descriptor `fd`, which stays its owner's.

    Into a pipe they go in pieces that it takes as one, cut between lines: no line is torn by another
    process. One that is longer than `PIPE_BUF` can be torn by other processes, not by this one's.
    `taken_bytes` grows as the other side takes what it is given.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._known: tuple[bool, threading.Lock] | None = None
        self.taken_bytes = 0

    def write(self, block: bytes) -> None:
        """Write all of it, however long it takes. Raises `OSError` when nobody reads any more."""
        is_pipe, lock = self._known = self._known or _of(self._fd)
        at = 0
        while at < len(block):
            end = _end_of_piece(block, at) if is_pipe else len(block)
            with lock:
                self._insist(memoryview(block)[at:end])
            at = end

    def _insist(self, piece: memoryview) -> None:
        while piece:
            try:
                written = os.write(self._fd, piece)
            except BlockingIOError:
                # A terminal or pipe that another program has set to non-blocking.
                select.select([], [self._fd], [], 1.0)
                continue
            self.taken_bytes += written
            piece = piece[written:]


def _end_of_piece(block: bytes, at: int) -> int:
    """Behind the last line that ends within a pipe's piece, or behind one that is longer than that."""
    if len(block) - at <= PIPE_BUF:
        return len(block)
    return block.rfind(b"\n", at, at + PIPE_BUF) + 1 or block.find(b"\n", at + PIPE_BUF) + 1 or len(block)


# Standard output and standard error are one pipe as a rule, and two threads of an agent write there: the
# lock belongs to what is behind a descriptor.
_LOCKS: Final[dict[tuple[int, int], threading.Lock]] = {}


def _of(fd: int) -> tuple[bool, threading.Lock]:
    found = os.fstat(fd)
    lock = _LOCKS.setdefault((found.st_dev, found.st_ino), threading.Lock())
    return stat.S_ISFIFO(found.st_mode) or stat.S_ISSOCK(found.st_mode), lock
