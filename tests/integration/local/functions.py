"""What the tests submit. A module of its own: workers import it, and pytest with it would be slow."""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import threading
from pathlib import Path
from typing import Any

from hpc_elastic import worker

STEP_S = 0.02
ENDLESS = 1_000_000


def pause(seconds: float) -> None:
    """Work that takes a while."""
    threading.Event().wait(seconds)


def say(what: str) -> None:
    """A line in this rank's log."""
    sys.stdout.write(f"{what}\n")
    sys.stdout.flush()


def place(*, scale: int) -> dict[str, int]:
    """Where this worker is."""
    return {"rank": int(os.environ["RANK"]) * scale, "world": int(os.environ["WORLD_SIZE"])}


def fork_and_return() -> tuple[str, int]:
    """Let a forked process return as well, later than the worker would have, and with another value."""
    child = os.fork()
    if child == 0:
        return "forked", 0
    return "worker", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def fork_and_raise() -> str:
    """Let a forked process raise, then fail for another reason."""
    if os.fork() == 0:
        raise ValueError("of the forked process")
    os.wait()
    raise Broken("of the worker")


class EndsItsReader:
    """Whoever loads it is told to exit."""

    def __reduce__(self) -> tuple[Any, ...]:
        return exec, ("raise SystemExit(3)",)


class Broken(Exception):
    """An exception of the user's own."""


def fail_on(rank: int) -> str:
    """Fail on one rank at once, and wait on the others."""
    if int(os.environ["RANK"]) == rank:
        raise Broken(f"rank {rank} has had enough")
    pause(60)
    return "not reached"


def fail_first(marks: str) -> str:
    """Fail in the first round, succeed in the second."""
    mark = Path(marks) / os.environ["RANK"]
    if not mark.exists():
        mark.touch()
        raise Broken("the first time")
    return os.environ["HPC_ELASTIC_ROUND"]


def train(steps: int) -> dict[str, Any]:
    """Count to `steps`, saving when told to stop; the steps this rank took in all its lives."""
    ctx = worker.context()
    saved = Path(ctx.checkpoint_dir) / f"{ctx.rank}.json"
    took: list[int] = json.loads(saved.read_text()) if saved.exists() else []
    for step in range(len(took), steps):
        pause(STEP_S)
        took.append(step)
        say(f"step {step}")
        ctx.progress(step)
        if ctx.should_stop(step):
            temporary = saved.with_suffix(".tmp")
            temporary.write_text(json.dumps(took))
            temporary.replace(saved)
            ctx.saved(step)
            ctx.leave()
    return {"rank": ctx.rank, "took": took, "attempt": ctx.attempt}


def train_twice(steps: int) -> dict[str, Any]:
    """Count until told to stop, saving then; started again take `steps` more, and return as `train` does."""
    ctx = worker.context()
    saved = Path(ctx.checkpoint_dir) / f"{ctx.rank}.json"
    before = len(json.loads(saved.read_text())) if saved.exists() else 0
    return train(before + steps if ctx.attempt > 1 else ENDLESS)


def spin_with_family() -> None:
    """Never end, with a child that ignores TERM and another in a session of its own."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if os.fork() == 0:
        os.setsid()
        pause(600)
        os._exit(0)
    say("spinning")
    pause(600)


def spin() -> None:
    """Say so, and never end."""
    say("spinning")
    pause(600)


def exit_quietly() -> None:
    """End the process instead of returning."""
    sys.exit(0)


def return_large(size_bytes: int) -> bytes:
    """Return this much."""
    return b"x" * size_bytes


def return_what_no_disk_takes() -> bytes:
    """Return more than this process may write into one file."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, resource.RLIM_INFINITY))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    return b"x" * (2 << 20)


def unpicklable() -> Any:
    """Return what cannot leave the process."""
    return threading.Lock()
