"""Counts steps, and takes SAVE_S for every save it makes for a stop; in life LAST it ends by itself.

Beside those it saves at step 10, at once; or, with EVERY_S, so long after the last save, and as slowly.

`agreed` asks the context where to stop and keeps its checkpoints by `hpc_elastic.checkpoints`; `plain` knows
of nothing but TERM and a file of its own, which it replaces by a rename.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from functools import partial
from pathlib import Path
from types import FrameType

STEP_S = 0.1
SAVE_S = float(os.environ.get("SAVE_S", "8"))
LAST = int(os.environ.get("LAST", "2"))
EVERY_S = float(os.environ.get("EVERY_S", "0"))
PERIODIC = 10


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def write_slowly(path: Path, step: int, seconds: float) -> None:
    """Half of it at once, and the other half `seconds` later."""
    with path.open("w") as file:
        file.write(f"state after {step}, ")
        file.flush()
        threading.Event().wait(seconds)
        file.write("whole")


def agreed() -> None:
    from hpc_elastic import worker
    from hpc_elastic.checkpoints import Checkpoints

    ctx = worker.context()
    kept = Checkpoints(ctx.checkpoint_dir, rank=ctx.rank, world_size=ctx.world_size)
    last = kept.latest()
    start = 0 if last is None else last.step + 1
    whole = last is None or (last.path / f"{ctx.rank}.txt").read_text().endswith("whole")
    say(f"starts at {start}, {'whole' if whole else 'CUT'}")
    step, saved_at_s = start, time.monotonic()
    while not (ctx.attempt >= LAST and step >= start + 10):
        threading.Event().wait(STEP_S)
        say(f"step {step}")
        ctx.progress(step)
        stop = ctx.should_stop(step)
        if stop or (time.monotonic() >= saved_at_s + EVERY_S if EVERY_S else step == PERIODIC):
            say("saves")
            write = partial(write_slowly, step=step, seconds=SAVE_S if stop or EVERY_S else 0.0)
            kept.save(step, lambda folder, write=write: write(folder / f"{ctx.rank}.txt"))  # type: ignore[misc]
            ctx.saved(step)
            say(f"saved {step}")
            saved_at_s = time.monotonic()
        if stop:
            ctx.leave()
        step += 1


def plain() -> None:
    kept = Path(os.environ["HPC_ELASTIC_CHECKPOINT_DIR"]) / f"plain-{os.environ['RANK']}.txt"
    told = threading.Event()

    def hear(_signum: int, _frame: FrameType | None) -> None:
        told.set()

    signal.signal(signal.SIGTERM, hear)
    text = kept.read_text() if kept.exists() else "state after -1, whole"
    start = int(text.split()[2].rstrip(",")) + 1
    say(f"starts at {start}, {'whole' if text.endswith('whole') else 'CUT'}")
    step = start
    while not (int(os.environ["HPC_ELASTIC_ATTEMPT"]) >= LAST and step >= start + 10):
        threading.Event().wait(STEP_S)
        say(f"step {step}")
        if told.is_set() or step == PERIODIC:
            say("saves")
            write_slowly(kept.with_suffix(".tmp"), step, SAVE_S if told.is_set() else 0.0)
            kept.with_suffix(".tmp").replace(kept)
            say(f"saved {step}")
        if told.is_set():
            return
        step += 1


if __name__ == "__main__":
    {"agreed": agreed, "plain": plain}[sys.argv[1]]()
