"""Log files of ranks: where they are, and their last lines."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from hpc_elastic.values import dataclass

_TAIL_BYTES: Final = 64 * 1024


@dataclass(frozen=True)
class LogFiles:
    """The two log files of one rank."""

    out: Path
    err: Path

    @classmethod
    def of(cls, directory: Path, global_rank: int) -> LogFiles:
        """Their paths in the folder of a round."""
        return cls(out=directory / f"{global_rank}.out", err=directory / f"{global_rank}.err")


def last_lines(path: Path, count: int, max_bytes: int = _TAIL_BYTES) -> list[str]:
    """Up to `count` last lines of a file, read from its last `max_bytes` only; empty without a file."""
    try:
        with open(path, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            start = max(0, size - max_bytes)
            file.seek(start)
            content = file.read(max_bytes)
    except OSError:
        return []
    lines = content.decode(errors="replace").splitlines()
    if start > 0 and len(lines) > 1:
        del lines[0]  # most likely half a line
    return lines[-count:] if count > 0 else []
