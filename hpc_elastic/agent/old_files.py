"""What agents have left in a run directory in its earlier attempts: of many the last ones are kept.

Logs, checkpoints and results are users' and stay.
"""

from __future__ import annotations

import shutil
from typing import Final

from hpc_elastic.agent.rundir import RunDirectory

_KINDS: Final = ("errors", "notices", "health")


def remove(directory: RunDirectory, newest: int) -> None:
    """Remove what is of the attempt `newest` or an older one; what cannot be removed stays."""
    for kind in _KINDS:
        for folder in (directory.path / kind).glob("[0-9]*"):
            if folder.name.isdecimal() and int(folder.name) <= newest:
                shutil.rmtree(folder, ignore_errors=True)
