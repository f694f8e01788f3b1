"""The example with DDP, whose rank 3 goes no further than 60 steps before somebody has killed it.

However slow the one is who wants to kill it in the middle, it is in the middle.
"""

from __future__ import annotations

import os
import runpy
import sys
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any, Final

DDP: Final = Path(__file__).resolve().parents[3] / "examples" / "torch_ddp" / "digits_ddp.py"
LAST: Final = 60
FOR_EVER_S: Final = 3600.0


def held(pause: Callable[[Any], None]) -> Callable[[Any], None]:
    """The pause that the example makes after each step; the one behind `LAST` has no end."""
    steps = count()
    return lambda seconds: pause(seconds if next(steps) < LAST else FOR_EVER_S)


if __name__ == "__main__":
    if (os.environ["RANK"], os.environ["HPC_ELASTIC_RESTART_COUNT"]) == ("3", "0"):
        time.sleep = held(time.sleep)
    sys.argv[0] = str(DDP)
    runpy.run_path(str(DDP), run_name="__main__")
