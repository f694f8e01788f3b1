"""What an agent does after it has left, where it is the last and the batch host is lost."""

from __future__ import annotations

from pathlib import Path
from select import select
from typing import TYPE_CHECKING

from hpc_elastic.agent import voice
from hpc_elastic.agent.signals import Mailbox
from hpc_elastic.backends.base import Backend
from hpc_elastic.backends.file import FileBackend
from hpc_elastic.cli.run_start import Start
from hpc_elastic.errors import HpcElasticError, UsageError
from hpc_elastic.rendezvous.standing import Standing
from hpc_elastic.slurm.environment import JobEnvironment

if TYPE_CHECKING:
    from hpc_elastic.slurm.continuation import Continuation


def see_to_the_job(
    start: Start, standing: Standing, live: Backend, code: int, mailbox: Mailbox, say: voice.Say
) -> None:
    """Have the job requeued, or end it, if nobody else can any more. Quick where the batch host lives."""
    job = start.job
    if job is None or job.nnodes < 2 or job.node_index == 0:
        return
    try:
        if _has_the_duty(start, job, standing, live, mailbox):
            say(_act(start, job, code))
    except HpcElasticError as failed:
        say(f"cannot look whether the batch host is lost: {failed}")


def _has_the_duty(
    start: Start, job: JobEnvironment, standing: Standing, live: Backend, mailbox: Mailbox
) -> bool:
    from hpc_elastic.slurm.last_out import LastOut, stagger

    members = () if standing.round is None else tuple(one.name for one in standing.round.members)
    place = LastOut(
        ledger=FileBackend(_record(start)),
        live=live,
        attempt=standing.attempt,
        name=start.seat.name,
        batch_node=job.node_names[0],
        members=members,
        heartbeat_s=start.settings.heartbeat_s,
    ).place()
    if place is None:
        return False
    list(mailbox.take())  # what came while we left: from now on a signal means that somebody acts
    return stagger(place, lambda within_s: bool(select([mailbox.fileno()], [], [], within_s)[0]))


def _act(start: Start, job: JobEnvironment, code: int) -> str:
    import shutil  # it brings three compressors along, and most agents are not asked

    from hpc_elastic.cli.requeue import settle
    from hpc_elastic.slurm.commands import Controller

    if shutil.which("scontrol") is None:
        return _leave_it(start, job)
    run_dir, most = start.location.run_dir, start.settings.max_restarts
    report = settle(run_dir, job, code, max_losses=most, further=_further(run_dir, job))
    if report.is_requeued:
        return f"the batch host is lost; {report.message}"
    ended = Controller().cancel(job.address)
    how = "is ended" if ended.is_ok else f"cannot be ended: {ended}"
    return f"the batch host is lost; {report.message}; job {job.address} {how}"


def _leave_it(start: Start, job: JobEnvironment) -> str:
    """Nothing can be asked from here: that is said where others can read it."""
    from hpc_elastic.cli.requeue import write_down

    why = (
        f"the batch host is lost, and no agent has a Slurm command: job {job.address} keeps its nodes until "
        f"it is ended (scancel {job.address}); to go on, submit the same again with "
        f"--run-dir {start.location.run_dir}"
    )
    write_down(start.location.run_dir, job, "", why)
    return why


def _further(run_dir: Path, job: JobEnvironment) -> Continuation | None:
    """What may go on in the place of the job, with the words that the run was started with."""
    from hpc_elastic.cli import run_options
    from hpc_elastic.cli.requeue import continuation
    from hpc_elastic.submission.guests import Hospitality

    try:
        line = Hospitality.read(run_dir).line
        return continuation(run_options.parse(line), line, run_dir, job)
    except UsageError:  # the description of a run is only for people, and may be missing
        return None


def _record(start: Start) -> Path:
    return start.location.run_dir / "record"
