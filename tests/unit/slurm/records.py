"""Job records for tests, in the words of several Slurm releases.

A file in `shapes/` is what `scontrol show job` of one release prints, with a name in braces for each
value that a test may want to change.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

_SHAPES: Final = {path.stem: path for path in sorted((Path(__file__).parent / "shapes").glob("*.txt"))}
RELEASES: Final = tuple(_SHAPES)

_PLAIN: Final = {
    "id": "71",
    "array": "",
    "name": "elastic.sh",
    "state": "RUNNING",
    "reason": "None",
    "requeue": "1",
    "restarts": "0",
    "batch": "1",
    "run": "00:10:00",
    "limit": "1-00:00:00",
    "end": "2026-03-02T12:00:00",
    "preempt": "None",
    "suspended": "0",
    "command": "/home/ann/elastic.sh train.py",
    "comment": "(null)",
}


def job_text(release: str = "22.05", **changed: str) -> str:
    """One line of `scontrol show job -o`: job 71, ten minutes into its day on four nodes."""
    lines = _SHAPES[release].read_text(encoding="utf-8").splitlines()
    return " ".join(line.strip() for line in lines).format(**(_PLAIN | changed)) + "\n"
