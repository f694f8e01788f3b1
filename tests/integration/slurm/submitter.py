"""A user's program on a login node: submits functions of its own, and reads what became of them."""

from __future__ import annotations

import itertools
import json
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

import hpc_elastic


def train(steps: int, held_lives: int = 0) -> dict[str, Any]:
    """Count, and save when told to stop: the steps of this rank over all its lives.

    In so many of them it goes on counting until there is a file `may_end` in the run's directory.
    """
    from hpc_elastic import worker

    ctx = worker.context()
    saved = Path(ctx.checkpoint_dir) / f"{ctx.rank}.json"
    took = json.loads(saved.read_text()) if saved.exists() else []
    for step in itertools.count(len(took)):
        is_held = ctx.attempt <= held_lives and not (ctx.run_dir / "may_end").exists()
        if step >= steps and not is_held:
            break
        threading.Event().wait(0.05)
        took.append(step)
        sys.stdout.write(f"step {step}\n")
        ctx.progress(step)
        if ctx.should_stop(step):
            saved.with_suffix(".tmp").write_text(json.dumps(took))
            saved.with_suffix(".tmp").replace(saved)
            ctx.saved(step)
            ctx.leave()
    seen = {name: os.environ.get(name) for name in ("SLURMD_NODENAME", "PREFIXED")}
    return {"took": took, "attempt": ctx.attempt, "host": seen["SLURMD_NODENAME"], "by": seen["PREFIXED"]}


def fail(rank: int) -> None:
    """Raise on one rank; the others wait to be stopped."""
    if int(os.environ["RANK"]) == rank:
        raise ValueError(f"rank {rank} cannot")
    threading.Event().wait(120)


def nest() -> str:
    """Submit from inside the job; only one rank does."""
    run_dir = Path(os.environ["HPC_ELASTIC_RUN_DIR"]).with_name("inner")
    job = hpc_elastic.submit(train, 3, nodes=1, cluster="slurm", run_dir=run_dir)
    return str(job.run_dir)


FUNCTIONS = {function.__name__: function for function in (train, fail, nest)}


def watch(job: hpc_elastic.Job) -> list[str]:
    """The states that somebody sees who looks twice a second until the end, repetitions left out."""
    seen = [job.state]
    while not seen[-1].is_final:
        threading.Event().wait(0.5)
        state = job.state
        if state is not seen[-1]:
            seen.append(state)
    return [state.value for state in seen]


def keep_looking(job: hpc_elastic.Job, record: str) -> Any:
    """What somebody is given who waits for the result, while they write down twice a second what they see."""
    with ThreadPoolExecutor(1) as thread, open(record, "a") as file:
        result = thread.submit(hpc_elastic.Job.attach(job.run_dir).result)
        state = job.state
        while not state.is_final:
            file.write(f"{state.value}\n")
            file.flush()
            threading.Event().wait(0.5)
            state = job.state
        file.write(f"{state.value}\n")
        return result.result(180)


def main(command: str, run_dir: str, *words: str) -> None:
    """`submit DIR OPTIONS FUNCTION [ARGUMENT]` prints the job id; the rest prints JSON."""
    if command == "submit":
        options, name, *arguments = words
        job = hpc_elastic.submit(
            FUNCTIONS[name], *map(int, arguments), cluster="slurm", run_dir=run_dir, **json.loads(options)
        )
        shown: object = job.job_id
    elif command == "watch":
        shown = watch(hpc_elastic.Job.attach(run_dir))
    elif command == "look":
        shown = asdict(hpc_elastic.Job.attach(run_dir).status())
    elif command == "keep_looking":
        shown = keep_looking(hpc_elastic.Job.attach(run_dir), *words)
    else:
        job = hpc_elastic.Job.attach(run_dir)
        shown = getattr(job, command)(*map(json.loads, words))
    if isinstance(shown, BaseException):
        shown = [type(shown).__name__, str(shown), str(shown.__cause__)]
    sys.stdout.write(f"{json.dumps(shown)}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
