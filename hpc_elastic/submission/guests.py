"""A job that joins the run of another: its nodes become members, and leave when that job has to end."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hpc_elastic.clock import SYSTEM_CLOCK, Clock
from hpc_elastic.errors import RunOver, SubmissionError, UsageError
from hpc_elastic.rendezvous.record import GUESTS, NodeState
from hpc_elastic.slurm import commands
from hpc_elastic.slurm.commands import Answer, Runner
from hpc_elastic.status import snapshot
from hpc_elastic.status.snapshot import RunSnapshot
from hpc_elastic.submission import environment, script
from hpc_elastic.submission.acceptance import Counter, Delivery, Reply
from hpc_elastic.submission.files import SubmissionFiles

_SUBMIT_S: Final = 60.0
_FORGOTTEN: Final = "invalid job id"


@dataclass(frozen=True)
class Hospitality:
    """What the description of a run says about starting more agents for it."""

    run_id: str
    line: tuple[str, ...]
    cwd: str
    python: str
    setup: tuple[str, ...]

    @classmethod
    def read(cls, run_dir: Path) -> Hospitality:
        """Raises `UsageError` where the run's description does not say how it was started."""
        try:
            body = json.loads((run_dir / "run.json").read_bytes())
            line = tuple(map(str, body["line"]))
            setup = tuple(map(str, body.get("setup", ())))
            return cls(str(body["run_id"]), line, str(body["cwd"]), str(body["python"]), setup)
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as bad:
            raise UsageError(
                f"{run_dir}/run.json does not say how the run was started ({type(bad).__name__}: {bad}); "
                "submit a job with the same words and --guest, --run-dir and --rdzv-id of the run"
            ) from bad


def join(
    run_dir: Path,
    options: Sequence[str],
    around: Mapping[str, str],
    runner: Runner = commands.run,
    clock: Clock = SYSTEM_CLOCK,
) -> str:
    """Submit a job whose nodes join the run in `run_dir`, with `options` of sbatch; its number.

    Raises `RunOver` where the run has ended, `UsageError` where it cannot be joined, `SubmissionError`
    where Slurm refuses.
    """
    run = snapshot.read(run_dir)
    if run.closed is not None:
        raise RunOver(f"run {run.run_id or run_dir.name} has ended: {run.closed.message}; nothing to join")
    require_host(run_dir, run)
    host = Hospitality.read(run_dir)
    folder = SubmissionFiles(run_dir).folder
    batch = _write_script(folder, host, around)
    without = [word for name in sorted(environment.inherited(around)) for word in ("-u", name)]
    ours = ("--nodes=1", f"--chdir={host.cwd}", f"--output={folder}/join-%j.out")
    words = ("--guest", f"--rdzv-id={host.run_id}", f"--run-dir={run_dir}", *host.line)
    command = ("env", *without, "sbatch", "--parsable", *ours, *options, str(batch), *words)
    try:
        job = Counter(clock, runner).hand_in(lambda: _reply(runner(command, _SUBMIT_S)), batch)
    finally:
        batch.unlink()  # Slurm has a copy of it
    _remember(SubmissionFiles(run_dir), job)
    return job


def _reply(answer: Answer) -> Reply:
    number = answer.output.strip().partition(";")[0]
    if answer.is_ok and number.isdecimal():
        return Reply(Delivery.TAKEN, number)
    if answer.is_ok or answer.status is None:
        return Reply(Delivery.IN_DOUBT, said=str(answer))
    return Reply.to_failure(answer.complaint or str(answer))


def require_host(run_dir: Path, run: RunSnapshot | None = None) -> None:
    """Raise `UsageError` where no job of its own has started the run in `run_dir`, or it was cancelled.

    Nodes that come then would wait for others, or bring a run back that somebody has stopped.
    """
    seen = run or snapshot.read(run_dir)
    own = seen.own_attempt
    if own is None:
        raise UsageError(
            f"nothing has started in {run_dir}: the nodes would wait; join once the run is there"
        )
    nodes = [one for one in seen.presences if one.attempt == own.number]
    has_left = all(one.state is NodeState.LEFT for one in nodes)
    if nodes and has_left and own.is_cancelled and not own.start.share:
        raise UsageError(
            f"the run in {run_dir} was cancelled: there is nothing to join; submit it again with this run "
            "directory, and join once it runs"
        )


def jobs_of(run: RunSnapshot) -> tuple[str, ...]:
    """The jobs that were submitted to join `run`, and those that did: they may run, wait, or be over."""
    submitted = _noted(SubmissionFiles(run.run_dir).guests)
    came = {one.start.job_id for one in run.attempts if one.start.share == GUESTS and not one.is_by_hand}
    return tuple(sorted(submitted | came, key=lambda job: (len(job), job)))


def cancel(run: RunSnapshot, runner: Runner = commands.run) -> str:
    """End all jobs that joined `run`, or wait to; what was done, to be put behind a sentence, or nothing.

    Raises `SubmissionError` where Slurm refuses. Jobs that it has forgotten are over.
    """
    jobs = jobs_of(run)
    for job in jobs:
        answer = runner(("scancel", job), commands.TIMEOUT_S)
        if not answer.is_ok and _FORGOTTEN not in answer.complaint.lower():
            raise SubmissionError(f"{answer}; the job may go on with the run; see `squeue --me`")
    if not jobs:
        return ""
    return f", with the {'job that joins' if len(jobs) == 1 else 'jobs that join'} it: {', '.join(jobs)}"


def _remember(files: SubmissionFiles, job: str) -> None:
    """So that it is ended with the run, also while it waits in the queue and has said nothing itself."""
    with suppress(OSError):
        files.guests.mkdir(mode=0o700, exist_ok=True)
        (files.guests / job).touch()


def _noted(folder: Path) -> frozenset[str]:
    try:
        return frozenset(name for name in os.listdir(folder) if name.isdecimal())
    except OSError:
        return frozenset()


def _write_script(folder: Path, host: Hospitality, around: Mapping[str, str]) -> Path:
    folder.mkdir(mode=0o700, exist_ok=True)
    batch = folder / f"join-{os.urandom(4).hex()}.sh"  # by which it is found where Slurm did not answer
    variables = environment.ours(around, host.python)
    text = script.compose(script.locate().read_text(), variables, host.setup)
    temporary = batch.with_name(f".{batch.name}.{os.getpid()}")
    temporary.write_text(text)
    temporary.chmod(stat.S_IRWXU)
    temporary.replace(batch)
    return batch
