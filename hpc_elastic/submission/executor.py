"""Submission through submitit: it checks the parameters and reads sbatch's answer; the script is ours."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from submitit import SlurmExecutor
from submitit.core.utils import CommandFunction, FailedJobError, FailedSubmissionError

from hpc_elastic.errors import SubmissionError, UsageError
from hpc_elastic.submission import sbatch_options, script
from hpc_elastic.submission.acceptance import Counter, Delivery, Reply
from hpc_elastic.submission.request import SubmitRequest

# What submitit puts into every job unless told otherwise. Five minutes and its own key are not
# what a user means who gave no limit: the site's defaults are.
_SUBMITITS_DEFAULTS: Final = {"time": "time", "wckey": "wckey", "signal": "signal_delay_s"}
_SUBMITITS_OWN: Final = ("nodes", "output", "error")
# submitit keeps its files in a folder whose name is part of every text it makes, and reads %j and %t in it.
# It is asked for neither: a run directory may have any name.
_NO_FOLDER: Final = Path("/")
_SCRIPT: Final = "job-{}.sh"


@dataclass(frozen=True)
class BatchJob:
    """All that one call of sbatch is made of."""

    text: str
    options: tuple[str, ...]
    arguments: tuple[str, ...]
    unset: tuple[str, ...]


class ElasticExecutor(SlurmExecutor):
    """submitit's executor with our script in place of its own, so that there is one batch side.

    submitit's in-task signal handlers and its requeue are not part of that script.
    """

    @classmethod
    def open(cls) -> ElasticExecutor:
        """An executor; raises UsageError where srun is missing."""
        try:
            return cls(_NO_FOLDER)
        except RuntimeError as missing:
            raise UsageError(
                "sbatch is on the PATH, but srun is not; install Slurm's client commands"
            ) from missing

    def words(self, request: SubmitRequest) -> dict[str, str]:
        """The user's options as words for sbatch, by name; raises UsageError for what cannot be one."""
        given = _flat(request.slurm)
        sbatch_options.check(given, self._valid_parameters() | set(self._equivalence_dict()))
        own = self._valid_parameters()
        given = self._convert_parameters(given)
        parameters = {name: value for name, value in given.items() if name in own}
        parameters["additional_parameters"] = {
            name: value for name, value in given.items() if name not in own
        }
        parameters |= {"job_name": request.name, "nodes": request.nodes.max_nodes, "stderr_to_stdout": True}
        try:
            self.update_parameters(**parameters)
        except (ValueError, TypeError) as bad:
            raise UsageError(f"submitit refuses slurm={dict(request.slurm)!r}: {bad}") from bad
        words = script.directives(self._make_submission_file_text("", ""))
        if "signal_delay_s" in parameters:  # submitit takes the signal's name from the environment
            words["signal"] = f"--signal=USR2@{parameters['signal_delay_s']}"
        dropped = {name for name, parameter in _SUBMITITS_DEFAULTS.items() if parameter not in parameters}
        return {name: word for name, word in words.items() if name not in dropped.union(_SUBMITITS_OWN)}

    def submit_script(self, job: BatchJob, path: Path, counter: Counter) -> str:
        """Write the script to `path`, call sbatch, return the job id; SubmissionError says why not."""
        path.write_text(job.text, encoding="utf-8", errors="surrogateescape")
        without = [word for name in job.unset for word in ("-u", name)]
        command = ["env", *without, "sbatch", *job.options, str(path), *job.arguments]
        return counter.hand_in(lambda: self._send(command), path)

    def _send(self, command: list[str]) -> Reply:
        """One call of sbatch."""
        said = io.StringIO()
        try:
            with contextlib.redirect_stderr(said):  # submitit prints what it raises as well
                output = CommandFunction(command, verbose=False)()
            return Reply(Delivery.TAKEN, self._get_job_id_from_submission_command(output))
        except FailedJobError as failed:
            return Reply.to_failure(str(failed))
        except FailedSubmissionError as unread:  # a wrapper of the site's may hide the number
            return Reply(Delivery.IN_DOUBT, said=" ".join(str(unread).split("\n")[0].split()))
        except OSError as refused:
            raise SubmissionError(f"sbatch cannot be started: {refused.strerror}") from refused


def check(request: SubmitRequest) -> None:
    """Raise UsageError where the request's options cannot be given to sbatch. Nothing is created."""
    ElasticExecutor.open().words(request)


def check_place(folder: Path) -> None:
    """Raise UsageError where Slurm cannot write its output into `folder`, whatever that is."""
    if "\\" in str(folder):
        raise UsageError(
            f"run directory {str(folder)!r} has a backslash, with which Slurm names output files otherwise; "
            "choose another"
        )


def options_of(request: SubmitRequest, template: str, folder: Path) -> tuple[str, ...]:
    """The whole option list for sbatch.

    The command line outranks SBATCH_* variables of the site or the user, the script's own lines do
    not (sbatch: command line, then environment, then script): so the script's lines are repeated
    here, and what the run cannot live without comes last.
    """
    named = str(folder).replace("%", "%%")
    needed = {
        "nodes": f"--nodes={request.nodes.text().replace(':', '-')}",
        "open-mode": "--open-mode=append",
        "no-kill": "--no-kill",
        "output": f"--output={named}/slurm-%j.out",
    }
    if request.is_pool:
        needed |= {
            "nodes": "--nodes=1",
            "array": f"--array=0-{request.nodes.max_nodes - 1}",
            "output": f"--output={named}/slurm-%A_%a.out",
        }
    merged = {**script.directives(template), **ElasticExecutor.open().words(request), **needed}
    for name in ("requeue", "no-requeue", "error"):
        merged.pop(name, None)
    return (*merged.values(), "--requeue" if request.requeue else "--no-requeue")


def submit(
    request: SubmitRequest,
    folder: Path,
    counter: Counter,
    *,
    arguments: Sequence[str],
    variables: Mapping[str, str],
    unset: Sequence[str],
) -> str:
    """Submit one job and return its id; raises SubmissionError where Slurm refuses it.

    `arguments` are those of the template, `variables` are exported in it, `unset` are taken from
    the environment that sbatch sees. `folder` exists; the script, whose name no other submission has, and
    the output go there.
    """
    template = script.locate().read_text()
    job = BatchJob(
        text=script.compose(template, variables, request.setup),
        options=options_of(request, template, folder),
        arguments=tuple(arguments),
        unset=tuple(unset),
    )
    path = folder / _SCRIPT.format(os.urandom(4).hex())
    return ElasticExecutor.open().submit_script(job, path, counter)


def _flat(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options without those that are None, and with submitit's `additional_parameters` among them."""
    given = {name: value for name, value in options.items() if value is not None}
    extra = given.pop("additional_parameters", {})
    if not isinstance(extra, Mapping):
        raise UsageError(f"slurm={{'additional_parameters': {extra!r}}} is no dictionary of options")
    return given | {str(name).lstrip("-").replace("-", "_"): value for name, value in extra.items()}
