"""Which run a person means by RUN: a directory, a run id or a Slurm job id."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from hpc_elastic.errors import HpcElasticError, UsageError
from hpc_elastic.exit_codes import ExitCode

if TYPE_CHECKING:
    from hpc_elastic.cli.parser import CommandParser
    from hpc_elastic.rendezvous.choice import Wanted
    from hpc_elastic.submission.orders import Orders

HELP = "a run directory, a run id or a Slurm job id"


def add_run(parser: CommandParser) -> None:
    """The RUN that a command is about."""
    parser.add_argument("run", metavar="RUN", help=HELP)


def orders(run_dir: Path) -> Orders:
    """Who carries out orders for the run in `run_dir`."""
    from hpc_elastic.submission.orders import Orders

    return Orders(run_dir, wanted=lambda: _wanted(run_dir))


def _wanted(run_dir: Path) -> Wanted:
    """How to reach the run's etcd: by the words it was started with, and by the environment here."""
    from hpc_elastic.cli import run_backend, run_options
    from hpc_elastic.submission import guests, notifier

    try:
        line = guests.Hospitality.read(run_dir).line
    except UsageError:
        return notifier.by_environment()
    return run_backend.from_outside(run_options.parse(line), os.environ)


def tell(run_dir: Path, order: str, told: str, *, as_json: bool) -> int:
    """Print what became of an order for a run; the status of the command."""
    print(json.dumps({"run_dir": str(run_dir), "order": order, "told": told}) if as_json else told)
    return int(ExitCode.DONE)


def home(env: Mapping[str, str] = os.environ) -> Path:
    """Where runs are looked for by their names: `HPC_ELASTIC_HOME`, else `hpc_elastic_runs/` here."""
    return Path(env.get("HPC_ELASTIC_HOME", "") or "hpc_elastic_runs").absolute()


def find(text: str, where: Path | None = None) -> Path:
    """The run directory that `text` names. Raises `UsageError` where it is none, or not one."""
    place = home() if where is None else where
    if not text:
        raise UsageError(f"an empty name is no run; list the runs in {place} with `hpc-elastic status`")
    try:
        found = _find(text, place)
        if not may_read(found):
            raise UsageError(
                f"{found} {_whose(found)}, and you may not read it; ask for the output of `status`"
            )
        return found
    except (OSError, ValueError) as refused:  # a name that is too long, or holds a zero byte
        raise UsageError(f"{text[:80]!r} can be no run directory: {refused}") from refused


def called(run_dir: Path) -> str:
    """The shortest word by which `find` leads to `run_dir` from here."""
    return run_dir.name if home() / run_dir.name == run_dir else str(run_dir)


def may_read(run_dir: Path) -> bool:
    """Whether this user may look into a directory."""
    return os.access(run_dir, os.R_OK | os.X_OK)


def find_own(text: str) -> Path:
    """The same for somebody who wants something of the run. Raises `UsageError` where it is another's."""
    found = find(text)
    if os.geteuid() not in (0, found.stat().st_uid):
        raise UsageError(f"{found} {_whose(found)}, and only its owner can do that; ask them to")
    return found


def _whose(path: Path) -> str:
    import pwd

    number = path.stat().st_uid
    try:
        return f"belongs to {pwd.getpwuid(number).pw_name}"
    except KeyError:  # a user that this machine does not know
        return f"belongs to uid {number}"


def _why_not(text: str) -> str:
    """Why a name that is right may still lead nowhere."""
    job = text if text.replace("_", "").isdecimal() else "<job>"
    if Path(f"slurm-{job}.out").is_file():
        return f"a job that could not start a run says why in its output, here slurm-{job}.out"
    return (
        f"a job has none before it starts (`squeue -j {job}`, `scancel {job}`), one that was submitted "
        "elsewhere has it there, and one with a --run-dir goes by that"
    )


def _find(text: str, place: Path) -> Path:
    for path in (Path(text), place / text):
        if path.is_dir():
            return path.absolute()
    # A run without a name is called <cluster>-<job id>.
    is_job = text.replace("_", "").isdecimal()
    named = (sorted(place.glob(f"*-{text}")) or _of_job(text, place)) if is_job else []
    if len(named) == 1:
        return named[0]
    if named:
        raise UsageError(f"{text} may be {' or '.join(each.name for each in named)}; give one of them")
    raise UsageError(
        f"there is no run {text!r}, neither as a directory nor in {place}; {_meant(text, place)}"
        f"list the runs there with `hpc-elastic status`; {_why_not(text)}"
    )


def _of_job(job: str, place: Path) -> list[Path]:
    """The runs in `place` that `job` was submitted for, or has taken up again; not one that it only joined.

    Each record there is looked into, so this comes after all names.
    """
    from hpc_elastic.rendezvous.record import GUESTS
    from hpc_elastic.status import snapshot
    from hpc_elastic.submission.files import JobFile, SubmissionFiles

    found = []
    for each in sorted(place.iterdir()) if place.is_dir() else ():
        if not each.is_dir() or not may_read(each):
            continue
        with suppress(HpcElasticError, OSError):
            starts = [one for one in snapshot.attempts(each) if one.share != GUESTS]
            files = SubmissionFiles(each)
            submitted = JobFile.read(files.job).job_id if files.job.exists() else ""
            if job == submitted or any(one.job_id == job for one in starts):
                found.append(each)
    return found


def _meant(text: str, place: Path) -> str:
    import difflib  # for a mistake only

    try:
        names = sorted(each.name for each in place.iterdir())
    except OSError:
        return ""
    near = difflib.get_close_matches(text, names, n=1, cutoff=0.75)
    return f"did you mean {near[0]}? " if near else ""
