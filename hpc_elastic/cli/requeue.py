"""`hpc-elastic requeue`: the batch side's last word, after its agents have left."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hpc_elastic.agent.rundir import RunDirectory
from hpc_elastic.backends.file import FileBackend
from hpc_elastic.cli import run_options
from hpc_elastic.cli.aftermath import aftermath
from hpc_elastic.cli.requeue_desk import Desk
from hpc_elastic.cli.run_options import RunOptions
from hpc_elastic.cli.run_start import Location, locate, refuse_too_few, share
from hpc_elastic.errors import BackendUnavailable, UsageError
from hpc_elastic.exit_codes import ExitCode
from hpc_elastic.slurm import job_record, walltime
from hpc_elastic.slurm.commands import Controller
from hpc_elastic.slurm.continuation import Continuation, mark
from hpc_elastic.slurm.environment import JOB_RECORD, JobEnvironment, grace_s
from hpc_elastic.slurm.requester import Report, Requester
from hpc_elastic.slurm.requeue import Aftermath
from hpc_elastic.status import history, losses, snapshot
from hpc_elastic.submission import guests

if TYPE_CHECKING:
    import argparse

    from hpc_elastic.cli.parser import CommandParser

# Set to "no" by a submission that asked for no requeue. `--no-requeue` alone may be the site's doing.
_REQUEUE: Final = "HPC_ELASTIC_REQUEUE"
_NO: Final = frozenset({"0", "no", "never", "false"})
_NO_CONTINUATION: Final = (
    "no other job goes on in its place: it has joined the run of another, or its options cannot be read"
)
_UNREADABLE: Final = "the run's record cannot be read, so the job is not requeued"
# Slurm sends these to the whole job as soon as it is requeued.
_IGNORED: Final = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)

_EXAMPLES: Final = """examples (sbatch/elastic.sh does this for you, and more):
  srun --ntasks-per-node=1 hpc-elastic run --nnodes 2:4 train.py; status=$?
  hpc-elastic requeue --step-status "$status" -- --nnodes 2:4 train.py
  exit $?

Set HPC_ELASTIC_REQUEUE=no for a job that shall not come back."""


def add_arguments(parser: CommandParser) -> None:
    """Three options, then the very words `run` was given, so that both find the same run."""
    parser.usage = (
        "hpc-elastic requeue [--check | --watch | --step-status N\n"
        "                           | --continued-by JOB | --stays-away WHY] [--json] --\n"
        "                           [run options] SCRIPT [ARGS...]"
    )
    parser.epilog = _EXAMPLES
    parser.add_argument(
        "--step-status", type=int, default=0, metavar="N", help="how the srun of the agents ended (0)"
    )
    parser.add_argument(
        "--check", action="store_true", help="before the start: check words, job and run directory"
    )
    parser.add_argument(
        "--watch",
        action="store_true",
        help="beside the agents: end with 0 when all that live have left, with 1 when the input is closed",
    )
    parser.add_argument(
        "--json", action="store_true", help="what was decided and done, or checked, as one JSON object"
    )
    parser.add_argument(
        "--continued-by",
        metavar="JOB",
        help="write down that JOB goes on; 1 if the run was cancelled meanwhile",
    )
    parser.add_argument("--stays-away", metavar="WHY", help="write down why nothing goes on")
    parser.keep_rest("line")


def run(args: argparse.Namespace) -> int:
    """Decide, act, verify, and say it; the status is what the batch script ends with."""
    job = JobEnvironment.parse(os.environ)
    if job is None:
        raise UsageError("no Slurm job here (SLURM_JOB_ID is not set); this command is for the batch script")
    if args.check:
        _check(args.line, job, as_json=args.json)
        return int(ExitCode.DONE)
    if args.watch:
        if args.json:
            raise UsageError("--json with --watch: it answers by its status alone; leave --json out")
        from hpc_elastic.cli.requeue_watch import watch

        return watch(args.line, job)
    options = run_options.parse(args.line)
    location = locate(options, os.environ)
    run_dir = location.run_dir
    if args.continued_by or args.stays_away:
        return write_down(run_dir, job, args.continued_by or "", args.stays_away or "")
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)
    of_pool = options.is_pool and job.is_array_task
    pool = share(options, os.environ, job).rpartition("/")[2] if of_pool else ""
    further = continuation(options, args.line, run_dir, job)
    report = settle(
        run_dir,
        job,
        args.step_status,
        max_losses=options.max_restarts,
        further=further,
        most_bad_nodes=options.exclude_bad_nodes,
        pool=pool,
    )
    if args.json:
        print(json.dumps(_told(job, location, report)), flush=True)
    else:
        print(f"hpc-elastic: {report.message} (status {report.code})", flush=True)
    return int(report.code)


def _told(job: JobEnvironment, location: Location, report: Report) -> dict[str, object]:
    return {
        "job": job.address,
        "run": location.run_id,
        "directory": str(location.run_dir),
        "status": int(report.code),
        "is_requeued": report.is_requeued,
        "continued_by": report.continued_by or None,
        "reason": None if report.reason is None else report.reason.value,
        "message": report.message,
    }


def _check(line: list[str], job: JobEnvironment, *, as_json: bool) -> None:
    """Raise what every agent would raise, once for the job and before anything is started.

    The run directory is made here, because only that shows that it can be made.
    """
    from hpc_elastic.cli import run_backend
    from hpc_elastic.cli.run import program_of

    options = run_options.parse(line)
    run_backend.wanted(options, os.environ)
    program_of(options)
    refuse_too_few(options, job)
    location = locate(options, os.environ)
    run_dir = location.run_dir
    if options.is_guest:
        guests.require_host(run_dir)
    RunDirectory.prepare(run_dir)
    save_s, was_cut = history.longest_save_s(run_dir), losses.was_cut_off(snapshot.read(run_dir))
    said = walltime.warning(save_s, grace_s(os.environ), was_cut=was_cut)
    if as_json:
        told = {"job": job.address, "run": location.run_id, "directory": str(run_dir), "warning": said}
        print(json.dumps(told), flush=True)
    elif said is not None:
        print(f"hpc-elastic: {said}", flush=True)


def write_down(run_dir: Path, job: JobEnvironment, continued_by: str, why_not: str) -> int:
    """What the batch shell has brought about where there is no Slurm command here."""
    after = aftermath(snapshot.read(run_dir), job, 0, may_requeue=True)
    desk = Desk(FileBackend(run_dir / "record"), after)
    desk.note_outcome(Report(0, why_not, continued_by=continued_by))
    return int(ExitCode.FAILED if continued_by and desk.is_cancelled() else ExitCode.DONE)


def continuation(
    options: RunOptions, line: Sequence[str], run_dir: Path, job: JobEnvironment
) -> Continuation | None:
    """The job that would go on with this run where its own cannot.

    None for a job that only lends its nodes to the run.
    """
    if options.is_guest:
        return None
    run_id = locate(options, os.environ).run_id
    kept: tuple[str, ...] = ("--run-dir", str(run_dir)) if options.run_dir is None else ()
    kept += ("--rdzv-id", run_id) if options.rdzv_id is None else ()
    if options.is_pool and not options.pool_id:
        kept += ("--pool-id", share(options, os.environ, job))
    low, high = (job.nnodes, job.nnodes) if options.is_pool or options.nnodes is None else options.nnodes
    return Continuation(
        words=(*kept, *line),
        nodes=str(low) if low == high else f"{low}-{high}",
        name=os.environ.get("SLURM_JOB_NAME", run_id),
        mark=mark(run_id, job.job_id, job.restart_count),
        script=run_dir / f"continuation-{job.job_id}.sh",
        array_task=job.array_task_id if job.is_array_task else "",
    )


def settle(
    run_dir: Path,
    job: JobEnvironment,
    step_status: int,
    *,
    max_losses: int,
    further: Continuation | None = None,
    most_bad_nodes: int = 0,
    pool: str = "",
) -> Report:
    """Decide by the record in `run_dir`, act and verify.

    `further` goes on where the job cannot. Up to `most_bad_nodes` nodes are not given to it again.
    `pool` is the array whose elements are one run.
    """
    try:
        found = snapshot.read(run_dir)
    except BackendUnavailable as lost:
        return Report(ExitCode.RECORD_LOST, f"{_UNREADABLE}: {lost}")
    after = aftermath(
        found,
        job,
        step_status,
        may_requeue=os.environ.get(_REQUEUE, "").lower() not in _NO,
        max_losses=max_losses,
        grace_s=grace_s(os.environ),
        most_bad_nodes=most_bad_nodes,
        others_may_come=_is_waited_for(pool, job, step_status),
    )
    desk = Desk(FileBackend(run_dir / "record"), after)
    report = _decide(desk, after, further, f"to go on, submit the same again with --run-dir {run_dir}")
    desk.note_cause(report.reason)
    desk.note_outcome(report)
    if after.closed is not None and shutil.which("scancel") is not None:
        said = desk.release(pool, guests.jobs_of(found), after.closed)
        report = replace(report, message=f"{report.message}; {said}") if said else report
    return report


def _read_by_shell() -> str | None:
    """What the batch shell has read of the job, where it alone can ask Slurm."""
    return os.environ.get(JOB_RECORD) if shutil.which("scontrol") is None else None


def _is_waited_for(pool: str, job: JobEnvironment, step_status: int) -> bool:
    """Whether this element of a pool left because too few others were there, and others may come."""
    if not pool or step_status != ExitCode.RENDEZVOUS_TIMEOUT:
        return False
    read = _read_by_shell()
    shown = Controller().show_job(pool).output if read is None else read
    return others_may_come(shown, pool, job.address)


def others_may_come(shown: str, pool: str, address: str) -> bool:
    """Whether elements of the array `pool` beside `address` run or wait, by what `scontrol` shows of it.

    Also where it shows none at all: who asks again then is told the next time.
    """
    from hpc_elastic.submission.elements import sight_of
    from hpc_elastic.submission.states import Sight

    records = job_record.parse_array(shown, pool)
    others = (one for one in records if one.address != address)
    return not records or any(sight_of(one.state) is not Sight.ENDED for one in others)


def _decide(desk: Desk, after: Aftermath, further: Continuation | None, resume: str) -> Report:
    """By a record that the batch shell has read, where there is no Slurm command here: it then asks."""
    requester = Requester(
        claim=desk.claim,
        resume=resume,
        continuation=further,
        why_no_continuation=_NO_CONTINUATION,
        is_unwanted=desk.is_cancelled,
    )
    shown = _read_by_shell()
    if shown is not None:
        job = job_record.parse(shown, after.job_id)
        return requester.hand_over(after, job, job_record.fields(shown, after.job_id))
    return requester.settle(after)
