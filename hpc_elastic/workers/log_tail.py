"""Following the log files of ranks: their lines are copied to consoles and aggregate logs as they come."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from hpc_elastic.clock import wait_in_slices
from hpc_elastic.values import dataclass
from hpc_elastic.workers.line_writer import LineWriter

_CHUNK_BYTES: Final = 256 * 1024
_LONGEST_LINE_BYTES: Final = 64 * 1024
# A line is late by a tenth of the silence before it, within these bounds: the first one of a worker
# comes at once, and hours of silence cost nothing.
_FIRST_PAUSE_S: Final = 0.005
_LONGEST_PAUSE_S: Final = 0.25
_PAUSE_GROWTH: Final = 1.1


@dataclass(frozen=True)
class Copy:
    """Where lines go: to the descriptor `to_fd`, each led by `prefix`.

    With `filters` only lines that contain one of them.
    """

    to_fd: int
    prefix: str
    filters: tuple[str, ...] = ()


@dataclass(frozen=True)
class Followed:
    """A file to be copied, from its byte `begin` on: what stands before was shown by somebody else."""

    path: Path
    copies: tuple[Copy, ...]
    begin: int = 0


class LogTail:
    """Copies lines of files as they are written.

    A line is passed on whole or, from 64 KiB on, in pieces. A thread of its own does it, so that a
    console that takes nothing (a full pipe) stops the copying and not the agent; the files have all.
    """

    def __init__(self, followed: Sequence[Followed]) -> None:
        self._writers = {copy.to_fd: LineWriter(copy.to_fd) for each in followed for copy in each.copies}
        self._cursors = [_Cursor(each, self._writers) for each in followed]
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="log-tail", daemon=True)

    def start(self) -> None:
        if self._cursors:
            self._thread.start()

    def finish(self, stalled_s: float, most_s: float) -> bool:
        """Copy what is left, unfinished last lines included; False when the console does not take it.

        That is when it has taken nothing for `stalled_s`, or not all in `most_s`. To be called once
        nobody writes to the files any more. A second call does nothing.
        """
        self._over.set()
        waited_s, taken = 0.0, -1
        while self._is_alive() and waited_s < most_s and taken != self._taken_bytes():
            taken = self._taken_bytes()
            wait_in_slices(self._thread.join, lambda: not self._is_alive(), stalled_s)
            waited_s += stalled_s
        return not self._is_alive()

    def _is_alive(self) -> bool:
        return self._thread.ident is not None and self._thread.is_alive()

    def _taken_bytes(self) -> int:
        return sum(writer.taken_bytes for writer in self._writers.values())

    def _follow(self) -> None:
        pause_s = _FIRST_PAUSE_S
        while not self._over.wait(pause_s):
            moved = [cursor.copy() for cursor in self._cursors]
            pause_s = _FIRST_PAUSE_S if any(moved) else min(_LONGEST_PAUSE_S, _PAUSE_GROWTH * pause_s)
        for cursor in self._cursors:
            while cursor.copy():
                pass
            cursor.close()


class _Cursor:
    """How far one file has been copied."""

    def __init__(self, followed: Followed, writers: dict[int, LineWriter]) -> None:
        self._path = followed.path
        self._outputs = [_Output(copy, writers[copy.to_fd]) for copy in followed.copies]
        self._fd: int | None = None
        self._unfinished = b""
        self._read_bytes = followed.begin

    def copy(self) -> bool:
        """Copy the next chunk's whole lines; False when there was nothing to read."""
        if not any(output.is_open for output in self._outputs) or not self._opened():
            return False
        assert self._fd is not None
        try:
            piece = os.read(self._fd, _CHUNK_BYTES)
        except OSError:  # a stale handle, a server that fails: opened anew at the next look
            os.close(self._fd)
            self._fd = None
            return False
        if not piece:
            return False
        self._read_bytes += len(piece)
        lines, newline, rest = (self._unfinished + piece).rpartition(b"\n")
        if len(rest) > _LONGEST_LINE_BYTES:
            lines, newline, rest = lines + newline + rest, b"\n", b""
        self._unfinished = rest
        if newline:
            self._emit(lines)
        return True

    def close(self) -> None:
        """Pass on an unfinished last line and let go of the file."""
        if self._unfinished:
            self._emit(self._unfinished)
            self._unfinished = b""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _opened(self) -> bool:
        if self._fd is None:
            try:
                self._fd = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
            except OSError:
                return False  # not there yet
            os.lseek(self._fd, self._read_bytes, os.SEEK_SET)
        return True

    def _emit(self, lines: bytes) -> None:
        for output in self._outputs:
            output.emit(lines)


class _Output:
    """One place that lines of one file go to, until nobody reads there any more."""

    def __init__(self, copy: Copy, writer: LineWriter) -> None:
        self._prefix = copy.prefix.encode()
        self._filters = [text.encode() for text in copy.filters]
        self._writer = writer
        self.is_open = True

    def emit(self, lines: bytes) -> None:
        """Write whole lines, given without the last one's end."""
        if self._filters:
            kept = [line for line in lines.split(b"\n") if any(text in line for text in self._filters)]
            if not kept:
                return
            lines = b"\n".join(kept)
        # One call for all lines of a block, whatever their number: 10 000 lines a second are nothing.
        block = self._prefix + lines.replace(b"\n", b"\n" + self._prefix) + b"\n"
        try:
            if self.is_open:
                self._writer.write(block)
        except OSError:
            self.is_open = False
