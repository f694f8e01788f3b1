"""Tells its steps, and neither saves nor stops."""

from __future__ import annotations

import itertools
import threading

from hpc_elastic import worker

STEP_S = 0.1


def main() -> None:
    ctx = worker.context()
    for step in itertools.count():
        threading.Event().wait(STEP_S)
        ctx.progress(step)


if __name__ == "__main__":
    main()
