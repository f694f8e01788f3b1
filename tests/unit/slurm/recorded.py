"""The recordings of `tools/record_slurm.py`, one folder for each release of Slurm."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final

from hpc_elastic.slurm import continuation, job_record
from hpc_elastic.slurm.job_record import JobRecord

_RECORDINGS: Final = Path(__file__).resolve().parents[2] / "recordings"
# The folders with a source.txt were recorded here; the others are quoted (tests/recordings/README.md).
RELEASES: Final = tuple(
    sorted(path.parent.name.removeprefix("slurm-") for path in _RECORDINGS.glob("*/source.txt"))
)
_ID: Final = re.compile(r"^JobId=(\d+) ")


def text(release: str, name: str) -> str:
    """One file of a release."""
    return (_RECORDINGS / f"slurm-{release}" / name).read_text(encoding="utf-8")


def json_of(release: str, name: str) -> Any:
    """One file of a release that holds JSON."""
    return json.loads(text(release, name))


def job(release: str, name: str) -> JobRecord:
    """The one job of a file."""
    line = text(release, f"{name}.txt")
    found = _ID.match(line)
    assert found is not None, line
    record = job_record.parse(line, found.group(1))
    assert record is not None, line
    return record


def options_of(release: str, name: str) -> tuple[str, ...]:
    """What a continuation of the one job of a file would ask for."""
    job_id = job(release, name).job_id
    found = job_record.fields(text(release, f"{name}.txt"), job_id)
    assert found is not None
    return continuation.options(found, job_id)


def environment(release: str, where: str) -> dict[str, str]:
    """What Slurm put into the environment of a `batch` script or a `step`."""
    lines = text(release, f"environment-{where}.txt").splitlines()
    return dict(line.split("=", 1) for line in lines)
