"""What a job asks of Slurm while nothing happens to it, counted by programs that stand before Slurm's own."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final

from hpc_elastic.testing.sandbox.options import SandboxOptions
from tests.integration.slurm.bench import a_sandbox
from tests.integration.slurm.matrix import Submission
from tests.integration.slurm.matrix_run import Field

COMMANDS: Final = ("scontrol", "squeue", "sacct", "sinfo")
# Within this time from its first question a job has started.
_START_S: Final = 60.0
_USUAL: Final = Submission("steps", requeue=True)


@dataclass(frozen=True)
class Asked:
    """One question: seconds since the first one, and its words."""

    at_s: float
    words: str


def in_training(seconds: float) -> tuple[Asked, ...]:
    """All questions of a job of two nodes, of which it trains undisturbed for `seconds`, and then ends."""
    with a_sandbox(SandboxOptions(nodes=2)) as sandbox:
        field = Field.on(sandbox)
        folder = field.bench.folder / "counted"
        folder.mkdir()
        folder.chmod(0o777)
        for name in filter(shutil.which, COMMANDS):
            _stand_before(folder, name)
        job = field.submit(_USUAL, path=str(folder))
        field.wait_until_training([job])
        threading.Event().wait(seconds)
        field.finish(job)
        field.wait_until_over(job)
        lines = [line.split(" ", 1) for line in (folder / "asked").read_text().splitlines()]
    return tuple(Asked(round(float(at_s) - float(lines[0][0]), 1), words) for at_s, words in lines)


def shortest_pause_s(asked: Sequence[Asked]) -> float | None:
    """The shortest time between two questions after those of the start; None where there are no others."""
    begin = [one for one in asked if one.at_s <= _START_S][-1:]
    later = [one for one in asked if one.at_s > _START_S]
    return min((after.at_s - before.at_s for before, after in pairwise(begin + later)), default=None)


def _stand_before(folder: Path, name: str) -> None:
    program = folder / name
    line = f'echo "$(date +%s.%N) {name} $*" >>{folder}/asked'
    program.write_text(f'#!/bin/sh\n{line}\nexec {shutil.which(name)} "$@"\n')
    program.chmod(0o755)
