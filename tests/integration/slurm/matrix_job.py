"""Counts steps until it is stopped or `finish` is in its run directory; in life LIVES + 1 ten steps."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

from hpc_elastic import worker

SAVE_EVERY = 20
STEP_S = 0.1


def main() -> None:
    ctx = worker.context()
    finish = Path(ctx.run_dir) / "finish"
    kept = Path(ctx.checkpoint_dir) / f"{ctx.rank}.txt"
    step = start = int(kept.read_text()) if kept.exists() else 0
    say(f"starts at {start}")
    is_last = ctx.attempt > int(os.environ.get("LIVES", "1"))
    while step < start + 10 if is_last else not finish.exists():
        threading.Event().wait(STEP_S)
        say(f"step {step}")
        ctx.progress(step)
        stop = ctx.should_stop(step)
        if stop:
            notice = ctx.notice()
            say(f"told {notice.reason if notice else None}")
        if stop or (step + 1) % SAVE_EVERY == 0:
            kept.with_suffix(".tmp").write_text(str(step + 1))
            kept.with_suffix(".tmp").replace(kept)
        if stop:
            ctx.saved(step)
            ctx.leave()
        step += 1
    say("done")


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
