"""What Slurm has made of the options that a run cannot live without: read from the job's record, and mended.

A site may change them on the way: by a default, or by a plugin that looks at every job.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from hpc_elastic.slurm import commands, job_record
from hpc_elastic.slurm.commands import Runner

_LOST: Final = {
    True: "a preempted run goes on as a new job",
    False: "Slurm itself may start it again after a preemption",
}


def check(job_id: str, *, requeue: bool, min_nodes: int, runner: Runner = commands.run) -> tuple[str, ...]:
    """What is otherwise than asked for, one sentence each; nothing where Slurm does not show the job.

    `Requeue` is set right, which the job's owner may do even where the site's default is another.
    """
    answer = runner(("scontrol", "show", "job", "-o", job_id), commands.TIMEOUT_S)
    fields = job_record.fields(answer.output, job_id) if answer.is_ok else None
    if fields is None:
        return ()
    return (*_requeue(job_id, fields, requeue, runner), *_nodes(job_id, fields, min_nodes))


def _requeue(job_id: str, fields: Mapping[str, str], wanted: bool, runner: Runner) -> tuple[str, ...]:
    found = fields.get("Requeue")
    if found not in ("0", "1") or found == str(int(wanted)):
        return ()
    change = ("scontrol", "update", f"JobId={job_id}", f"Requeue={int(wanted)}")
    answer = runner(change, commands.TIMEOUT_S)
    otherwise = f"Slurm took job {job_id} with Requeue={found}, which was not asked for"
    if answer.is_ok:
        return (f"{otherwise}; it is set to {int(wanted)}",)
    return (f"{otherwise}, and does not change it ({answer}): {_LOST[wanted]}",)


def _nodes(job_id: str, fields: Mapping[str, str], wanted: int) -> tuple[str, ...]:
    found = re.match(r"\d+", fields.get("NumNodes", ""))
    if found is None or int(found[0]) >= wanted:
        return ()
    few = f"Slurm took job {job_id} with NumNodes={fields['NumNodes']}, and the run needs {wanted}"
    return (f"{few}: its agents will wait for more in vain; `scancel {job_id}`, and ask what limits it",)
