"""The agent's own lines on its console, which may take nothing for a while or for ever."""

from __future__ import annotations

import threading
from collections import deque
from typing import Final, Protocol

from hpc_elastic.clock import wait_in_slices

_MOST_LINES: Final = 1000


class Writer(Protocol):
    """Takes whole lines. What it cannot take, by an `OSError`, is dropped."""

    def write(self, block: bytes) -> None:
        """Take them all, however long that lasts."""
        ...


class Speaker:
    """Says lines in their order, from a thread of its own: a full pipe stops the words, not the agent.

    A console fills up where `srun` is stopped or its output file hangs, and it must not be that
    which keeps an agent from hearing a preemption. What is said meanwhile waits; of more lines than
    can wait the oldest are dropped.
    """

    def __init__(self, writer: Writer, prefix: str) -> None:
        self._writer = writer
        self._prefix = prefix
        self._lines: deque[str] = deque(maxlen=_MOST_LINES)
        self._changed = threading.Condition()
        self._is_over = False
        self._thread = threading.Thread(target=self._speak, name="speaker", daemon=True)

    def say(self, line: str) -> None:
        """Put a line behind those that wait; never waits itself."""
        with self._changed:
            self._lines.append(line)
            self._changed.notify()
        if self._thread.ident is None:
            self._thread.start()

    def finish(self, timeout_s: float) -> bool:
        """Say what is left; False when the console does not take it in time."""
        with self._changed:
            self._is_over = True
            self._changed.notify()
        return wait_in_slices(self._thread.join, lambda: not self._thread.is_alive(), timeout_s)

    def _speak(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._lines or self._is_over)
                if not self._lines:
                    return
                line = self._lines.popleft()
            self._write(f"{self._prefix}{line}\n".encode(errors="replace"))

    def _write(self, text: bytes) -> None:
        # Not through sys.stderr: a thread that is blocked inside it would abort the interpreter's end.
        try:
            self._writer.write(text)
        except OSError:
            return  # nobody reads it any more: no reason to stop
