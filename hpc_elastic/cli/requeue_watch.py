"""`hpc-elastic requeue --watch`: beside the agents, until the last of them that lives has left."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from select import select
from typing import Final

from hpc_elastic.backends.base import Backend
from hpc_elastic.backends.file import FileBackend
from hpc_elastic.cli import run_backend, run_options
from hpc_elastic.cli.run_start import job_start, locate
from hpc_elastic.clock import SYSTEM_CLOCK
from hpc_elastic.exit_codes import ExitCode
from hpc_elastic.rendezvous import choice
from hpc_elastic.slurm import job_record
from hpc_elastic.slurm.batch_watch import BatchWatch
from hpc_elastic.slurm.commands import Controller
from hpc_elastic.slurm.environment import JOB_RECORD, JobEnvironment
from hpc_elastic.slurm.job_record import JobRecord
from hpc_elastic.slurm.preemption import margin_s
from hpc_elastic.slurm.walltime import Walltime
from hpc_elastic.status import history

# It holds up the watch of the agents for so long, once in some minutes.
_ASK_S: Final = 4.0
# How long srun may take to see that its last task has ended.
_SRUN_S: Final = 3.0


def watch(line: Sequence[str], job: JobEnvironment) -> int:
    """DONE once every agent that lives has left while our input is still open; else FAILED.

    The batch shell holds the other end of the input as long as its srun runs.
    """
    options = run_options.parse(line)
    location = locate(options, os.environ)
    wanted = run_backend.wanted(options, os.environ)
    ledger = FileBackend(location.run_dir / "record")
    start = job_start(os.environ, job)

    def meet() -> Backend:
        meeting = choice.open_meeting(
            wanted, ledger, start, run_id=location.run_id, name="batch", clock=SYSTEM_CLOCK, patience_s=0.0
        )
        return meeting.backend

    heartbeat_s = options.conf["heartbeat"]
    watching = BatchWatch(
        ledger, meet, start, heartbeat_s=heartbeat_s, store_lost_s=options.conf["store_lost"]
    )
    walltime = _walltime(location.run_dir, job, watching)
    is_told = options.is_pool  # an element hands over to its next start by itself, in turn with the others
    while not watching.turn(now_s := SYSTEM_CLOCK.monotonic_s()):
        if not is_told and (left_s := walltime.left_to_stop(now_s)) is not None:
            reason = walltime.reason
            is_told = watching.give_notice(reason, left_s - margin_s(left_s), SYSTEM_CLOCK.utc_now())
        if _is_let_go(heartbeat_s):
            return int(ExitCode.FAILED)
    return int(ExitCode.FAILED if _is_let_go(_SRUN_S) else ExitCode.DONE)


def _walltime(run_dir: Path, job: JobEnvironment, watching: BatchWatch) -> Walltime:
    """The time limit of the job, which the batch shell has asked for at its start."""
    controller = Controller(timeout_s=_ASK_S, pauses_s=())

    def look() -> JobRecord | None:
        return job_record.parse(controller.show_job(job.job_id).output, job.job_id)

    first = job_record.parse(os.environ.get(JOB_RECORD, ""), job.job_id)
    now_s = SYSTEM_CLOCK.monotonic_s()
    read_at_s = float("-inf") if first is None else now_s
    return Walltime(
        look,
        history.longest_save_s(run_dir),
        first=first,
        read_at_s=read_at_s,
        front=watching.front,
        start_s=partial(history.longest_start_s, run_dir),
    )


def _is_let_go(within_s: float) -> bool:
    ready, _, _ = select([sys.stdin], [], [], within_s)
    return bool(ready) and not os.read(sys.stdin.fileno(), 1)
