"""A new job that goes on with a run whose own job cannot come back: its options, and how it is submitted.

The script is the one that Slurm keeps of the ending job; its `#SBATCH` lines count again. What stood on
sbatch's command line is taken from the job's record. It waits for the end of the old job, and carries a
mark in its comment, by which a second requester finds it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from hpc_elastic.slurm import job_record
from hpc_elastic.slurm.commands import Controller
from hpc_elastic.values import dataclass

# Fields of the record that are options by another name.
_FIELDS: Final[Mapping[str, str]] = {
    "Partition": "partition",
    "Account": "account",
    "QOS": "qos",
    "TimeLimit": "time",
    "CPUs/Task": "cpus-per-task",
    "MinMemoryNode": "mem",
    "MinMemoryCPU": "mem-per-cpu",
    "Features": "constraint",
    "TresPerNode": "gres",
    "TresPerJob": "gpus",
    "TresPerTask": "gpus-per-task",
    "Licenses": "licenses",
    "Reservation": "reservation",
    "ExcNodeList": "exclude",
    "ReqNodeList": "nodelist",
    "WorkDir": "chdir",
    "StdOut": "output",
}
# `MinMemoryNode=0` is what a job has that asked for none.
_NOTHING: Final = frozenset({"", "(null)", "N/A", "None", "0", "*"})
_GRES: Final = ("gres:", "gres/")
_MARK: Final = "hpc-elastic"


@dataclass(frozen=True)
class Continuation:
    """What goes on: `words` are the script's arguments, `nodes` the number or range to ask for.

    `script` is a path of ours where the batch script is written to. `array_task` is the index of an element
    of an array: what goes on for it has the same.
    """

    words: tuple[str, ...]
    nodes: str
    name: str
    mark: str
    script: Path
    array_task: str = ""

    def submit(
        self, controller: Controller, job_id: str, bad_nodes: Sequence[str] = ()
    ) -> tuple[str | None, str]:
        """The number of the new job and what shows it, or None and why there is none.

        There is at most one per mark. It is not given `bad_nodes`.
        """
        fields = job_record.fields(controller.show_job(job_id).output, job_id)
        if fields is None:
            return None, "the job's record, from which its options are taken, is out of reach"
        fields = fields | _excluding(fields, bad_nodes)
        if (there := self.find(controller)) is not None:
            return there, "submitted before"
        written = controller.write_script(job_id, str(self.script))
        if not written.is_ok:
            return None, f"its script cannot be had again: {written}"
        answer = controller.submit(*self.options(fields, job_id), str(self.script), *self.words)
        number = answer.output.strip().partition(";")[0]
        if not number.isdecimal():
            # An sbatch that was cut off may have been heard.
            there = None if answer.is_ok else self.find(controller)
            return there, str(answer)
        record = job_record.parse(controller.show_job(number).output, number)
        return number, "accepted, not verified" if record is None else f"state {record.state}"

    def options(self, fields: Mapping[str, str], job_id: str) -> tuple[str, ...]:
        """Those of sbatch, for the job of a record."""
        array = fields.get("ArrayJobId", "")
        # The plain id of one of its elements is that of the whole array.
        address = f"{array}_{self.array_task}" if array and self.array_task else job_id
        return (
            *options(fields, job_id),
            f"--nodes={self.nodes}",
            f"--job-name={self.name}",
            f"--comment={self.mark}",
            f"--dependency=afterany:{address}",
            "--export=ALL",
            "--requeue",
            *((f"--array={self.array_task}",) if self.array_task else ()),
        )

    def write_words(self, fields: Mapping[str, str], job_id: str) -> Path | None:
        """For a batch shell outside the container: a file of what follows `sbatch`, each word ended by a NUL.

        The first `--` stands for the script. None where it cannot be written.
        """
        path = self.script.with_suffix(".words")
        words = (*self.options(fields, job_id), "--", *self.words)
        try:
            path.write_bytes(b"".join(os.fsencode(word) + b"\0" for word in words))
        except OSError:
            return None
        return path

    def find(self, controller: Controller) -> str | None:
        """The job that carries our mark, if it waits or runs."""
        for line in controller.list_comments(os.getuid()).output.splitlines():
            number, _, comment = line.strip().partition(" ")
            if comment.strip() == self.mark:
                return number
        return None


def mark(run_id: str, job_id: str, restart_count: int) -> str:
    """What the comment of a job says that goes on after this start of this job."""
    return f"{_MARK}:{run_id}:{job_id}:{restart_count}"


def successor(comments: str, run_id: str, job_id: str) -> str | None:
    """The job that goes on after `job_id`, in the answer to `Controller.list_comments`."""
    for line in comments.splitlines():
        number, _, comment = line.strip().partition(" ")
        if comment.strip().startswith(f"{_MARK}:{run_id}:{job_id}:"):
            return number
    return None


def options(fields: Mapping[str, str], job_id: str) -> tuple[str, ...]:
    """What sbatch has to be given for a job like the one of this record, but for nodes and name."""
    own = "" if fields.get("ArrayJobId") else job_id  # an element's files have its index in their names
    found = {
        option: _value(option, fields[field], own)
        for field, option in _FIELDS.items()
        if fields.get(field, "") not in _NOTHING
    }
    given = tuple(f"--{option}={value}" for option, value in found.items() if value)
    return (*given, *_exclusive(fields))


def _exclusive(fields: Mapping[str, str]) -> tuple[str, ...]:
    """Since 26.05 it has a field of its own, and OverSubscribe=NO says nothing of it any more."""
    word = fields.get("Exclusive", "NODE" if fields.get("OverSubscribe") == "NO" else "NO")
    if word == "NO":
        return ()
    return ("--exclusive",) if word == "NODE" else (f"--exclusive={word.lower()}",)


def _excluding(fields: Mapping[str, str], names: Sequence[str]) -> dict[str, str]:
    before = fields.get("ExcNodeList", "")
    kept = () if before in _NOTHING else (before,)
    return {"ExcNodeList": ",".join((*kept, *names))} if names else {}


def _value(option: str, text: str, job_id: str) -> str:
    if option == "output" and job_id:
        folder, slash, name = text.rpartition("/")
        return folder + slash + name.replace(job_id, "%j")
    if option in ("gres", "gpus", "gpus-per-task"):
        # 24.11 has the CPUs of a task there too, which are an option of their own, and `=` for a colon.
        own = (one for one in text.split(",") if not one.startswith(("cpu=", "cpu:")))
        names = (one.removeprefix(_GRES[0]).removeprefix(_GRES[1]).replace("=", ":") for one in own)
        return ",".join(one if option == "gres" else one.removeprefix("gpu:") for one in names)
    return text
