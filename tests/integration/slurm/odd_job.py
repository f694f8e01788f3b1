"""`matrix_job.py` with something odd about it, named by the argument."""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path

from hpc_elastic import worker
from tests.integration.slurm import matrix_job

EVALUATES_AFTER, EVALUATES_S = 30, 60.0


def handles(ctx: worker.Context) -> None:
    """As a library does that takes the signal for itself."""
    signal.signal(signal.SIGUSR1, lambda signum, frame: None)


def dies(ctx: worker.Context) -> None:
    signal.signal(signal.SIGUSR1, signal.SIG_DFL)


def fails_once(ctx: worker.Context) -> None:
    has_failed = Path(ctx.run_dir) / "has_failed"
    if ctx.attempt == 2 and not has_failed.exists():
        has_failed.touch()
        raise RuntimeError("once")


def evaluates(ctx: worker.Context) -> None:
    """For longer than the grace time, and without a look at the notice."""
    progress = ctx.progress

    def then_evaluate(step: int) -> None:
        progress(step)
        if ctx.attempt == 1 and step == EVALUATES_AFTER:
            matrix_job.say("evaluates")
            threading.Event().wait(EVALUATES_S)

    ctx.progress = then_evaluate  # type: ignore[method-assign]


def has_a_bad_node(ctx: worker.Context) -> None:
    """The node of rank 1 in the first life."""
    bad, mine = Path(ctx.run_dir) / "bad", os.environ["SLURMD_NODENAME"]
    if ctx.rank == 1 and not bad.exists():
        bad.write_text(mine)
    if bad.exists() and bad.read_text() == mine:
        raise RuntimeError("a bad node")


ODDITIES = {
    "handles": handles,
    "dies": dies,
    "fails once": fails_once,
    "evaluates": evaluates,
    "has a bad node": has_a_bad_node,
}


if __name__ == "__main__":
    ODDITIES[sys.argv[1]](worker.context())
    matrix_job.main()
