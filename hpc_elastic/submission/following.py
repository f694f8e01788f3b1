"""The lines that a rank prints, as they come: over rounds and requeues, until the run is over."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from hpc_elastic.clock import Clock
from hpc_elastic.status import logs
from hpc_elastic.status.logs import LogFile

_LOOK_EVERY_S: Final = 0.5


class Following:
    """Remembers how far it has come in each file of one rank, from an attempt on."""

    def __init__(self, run_dir: Path, rank: int, attempt: int) -> None:
        self._run_dir = run_dir
        self._rank = rank
        self._attempt = attempt
        self._read_bytes: dict[Path, int] = {}

    def lines(self, is_over: Callable[[], bool], clock: Clock) -> Iterator[str]:
        """Each line without its end, once it is whole; what stands behind the last one comes at the end."""
        while True:
            was_over = is_over()  # looked at first: then all is written
            is_new = False
            for file in logs.since(self._run_dir, self._attempt, self._rank):
                for line in self._new_lines(file, with_rest=was_over):
                    is_new = True
                    yield line
            if was_over:
                return
            if not is_new:
                clock.sleep_s(_LOOK_EVERY_S)

    def _new_lines(self, file: LogFile, *, with_rest: bool) -> list[str]:
        at = self._read_bytes.get(file.path, 0)
        try:
            with file.path.open("rb") as opened:
                opened.seek(at)
                new = opened.read()
        except OSError:  # gone, or not to be seen for the moment
            return []
        whole = new if with_rest else new[: new.rfind(b"\n") + 1]
        self._read_bytes[file.path] = at + len(whole)
        lines = whole.split(b"\n")
        return [line.decode(errors="replace") for line in (lines[:-1] if not lines[-1] else lines)]
