"""A descriptor that is readable while there is news: marks that one thread leaves and another takes."""

from __future__ import annotations

import os
import threading


class Marks:
    """Thread-safe, also while another thread closes it.

    After that the numbers of its descriptors may be those of another file, so nothing is read or written
    by them: whoever leaves a mark then leaves none, and whoever takes marks is told by an `OSError`.
    """

    def __init__(self) -> None:
        self._read_fd, self._write_fd = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._lock = threading.Lock()

    def fileno(self) -> int:
        """A descriptor to select on; -1 when it is closed."""
        return self._read_fd

    def leave(self) -> None:
        """Make the descriptor readable."""
        with self._lock:
            if self._write_fd < 0:
                return
            try:
                os.write(self._write_fd, b".")
            except BlockingIOError:
                return  # the pipe is full of such marks already

    def take(self) -> None:
        """Make the descriptor quiet until the next mark."""
        with self._lock:
            try:
                while os.read(self._read_fd, 4096):
                    pass
            except BlockingIOError:
                return

    def close(self) -> None:
        """Give the descriptors back."""
        with self._lock:
            descriptors = self._read_fd, self._write_fd
            self._read_fd = self._write_fd = -1
            for descriptor in descriptors:
                os.close(descriptor)
