"""What the run on docs/pictures trains: steps that take time, a save at a stop, one failure."""

from __future__ import annotations

import threading
from pathlib import Path

from hpc_elastic import worker
from hpc_elastic.checkpoints import Checkpoints

STEPS = 160
FAILS_AT = 110
SAVES_EVERY = 50


def main() -> None:
    ctx = worker.context()
    checkpoints = Checkpoints(ctx.checkpoint_dir, keep=2)
    pause = threading.Event()

    def write(folder: Path) -> None:
        pause.wait(0.6)
        (folder / "state").write_text("all of it")

    last = checkpoints.latest()
    for step in range(last.step + 1 if last else 0, STEPS):
        pause.wait(0.05)
        ctx.progress(step)
        if step == FAILS_AT and ctx.rank == 1 and ctx.restart_count == 0:
            raise FloatingPointError("the loss is not a number")
        must_stop = ctx.should_stop(step)
        if must_stop or step % SAVES_EVERY == SAVES_EVERY - 1:
            if ctx.rank == 0:
                checkpoints.save(step, write)
            ctx.saved(step)
        if must_stop:
            ctx.leave()


if __name__ == "__main__":
    main()
