"""Which processes belong to a run: found by their words and their environment."""

from __future__ import annotations

import os
from pathlib import Path


def processes_of(run_dir: Path) -> list[str]:
    """All living processes that were started for `run_dir`, as `pid words`."""
    sign = str(run_dir).encode()
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal() or int(entry.name) == os.getpid():
            continue
        try:
            words, environment = (entry / "cmdline").read_bytes(), (entry / "environ").read_bytes()
        except OSError:
            continue
        if words and (sign in words or b"HPC_ELASTIC_RUN_DIR=" + sign in environment):
            found.append(f"{entry.name} {words.replace(bytes(1), b' ').decode()}")
    return found
