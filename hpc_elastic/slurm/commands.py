"""Slurm's commands: bounded in time, tried again where that can help, and never required.

A busy controller answers late or not at all, and a container often has no `scontrol`. So every call
gives an `Answer`, also when the command is missing or hangs; no call raises.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, Protocol

from hpc_elastic.clock import SYSTEM_CLOCK, Clock
from hpc_elastic.values import dataclass

TIMEOUT_S: Final = 10.0
PAUSES_S: Final = (0.5, 1.0, 2.0)  # before the second, third and fourth try
_KILLED_S: Final = 1.0
_STEP: Final = "SLURM_STEP"

# What the client tools print when the controller could not be talked to (20.11 to 26.05). A refusal
# reads otherwise and is final.
_TRANSIENT: Final = (
    "unable to contact",
    "timed out",
    "connection refused",
    "connection reset",
    "transport endpoint",
    "zero bytes were transmitted",
    "communications connection failure",
    "communication connection failure",
    "temporarily unavailable",
    "controller not responding",
    "unexpected message received",  # from a controller that is about to start (22.05.8)
    "standby mode",
    "rate limit",
    "too many requests",
)


@dataclass(frozen=True)
class Answer:
    """What came back from one command. `status` is None where it did not start or did not end."""

    command: tuple[str, ...]
    status: int | None
    output: str = ""
    complaint: str = ""

    @property
    def is_ok(self) -> bool:
        """Whether the command ended with status 0."""
        return self.status == 0

    @property
    def is_missing(self) -> bool:
        """Whether there is no such command on this machine."""
        return self.status == 127

    @property
    def may_work_later(self) -> bool:
        """Whether the controller was out of reach, so that the same call may work when repeated."""
        said = self.complaint.lower()
        return self.status is None or (self.status != 0 and any(sign in said for sign in _TRANSIENT))

    @property
    def is_refused(self) -> bool:
        """Whether Slurm has heard the request and said no."""
        return self.status not in (None, 0, 126, 127) and not self.may_work_later

    def __str__(self) -> str:
        said = " ".join(self.complaint.split()) or ("" if self.is_ok else "no message")
        ended = "no end in time" if self.status is None else f"status {self.status}"
        return f"`{' '.join(self.command)}`: {ended}" + (f", {said}" if said else "")


class Runner(Protocol):
    """Runs one command to its end, or gives up after `timeout_s`."""

    def __call__(self, command: Sequence[str], timeout_s: float) -> Answer: ...


def run(command: Sequence[str], timeout_s: float) -> Answer:
    """Run one command; on a timeout it is killed and the answer has no status."""
    # Times are parsed: a user's SLURM_TIME_FORMAT=relative would change them.
    environment = {**_around(), "LC_ALL": "C", "SLURM_TIME_FORMAT": "standard"}
    pipe, nothing = subprocess.PIPE, subprocess.DEVNULL
    try:
        process = subprocess.Popen(
            command, stdin=nothing, stdout=pipe, stderr=pipe, env=environment, start_new_session=True
        )
    except FileNotFoundError:
        return Answer(tuple(command), 127, complaint=f"{command[0]} is not in PATH")
    except OSError as error:
        return Answer(tuple(command), 126, complaint=str(error))
    try:
        output, complaint = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        _end(process)
        return Answer(tuple(command), None, complaint=f"no answer in {timeout_s:g} s")
    return Answer(
        tuple(command),
        process.returncode,
        output.decode(errors="replace"),
        complaint.decode(errors="replace"),
    )


def _around() -> dict[str, str]:
    """The environment without what says that this process is in a step: a job submitted here is in none."""
    return {name: value for name, value in os.environ.items() if not name.startswith(_STEP)}  # noqa: TID251 -- passed on


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill the command and what it started: a wrapper's child would hold the pipes open."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            stream.close()
    with suppress(subprocess.TimeoutExpired):
        process.wait(timeout=_KILLED_S)


@dataclass(frozen=True)
class Controller:
    """The controller, through `scontrol`. `pauses_s` says how often a call is repeated, and when."""

    runner: Runner = run
    clock: Clock = SYSTEM_CLOCK
    timeout_s: float = TIMEOUT_S
    pauses_s: tuple[float, ...] = PAUSES_S

    def show_job(self, job: str) -> Answer:
        """The record of one job, on one line."""
        return self._ask("show", "job", "-o", job)

    def show_partition(self, partition: str) -> Answer:
        """The record of one partition, on one line."""
        return self._ask("show", "partition", "-o", partition)

    def show_config(self) -> Answer:
        """The site's configuration."""
        return self._ask("show", "config")

    def requeue(self, job: str) -> Answer:
        """Ask for a new start. `Incomplete` leaves a cancelled or finished job alone.

        Status 0 does not prove it: a job that is already completing gives 0 and nothing happens.
        """
        return self._ask("requeue", "Incomplete", job)

    def cancel(self, job: str) -> Answer:
        """End the job; nothing happens to one that has ended."""
        return self._run(("scancel", job))

    def cancel_pending(self, array: str) -> Answer:
        """Take those elements of an array out of the queue that do not run; the others go on."""
        return self._run(("scancel", "--state=PENDING", array))

    def switch_requeue_on(self, job: str) -> Answer:
        """Set the job's own Requeue field, which its owner may do even under JobRequeue=0."""
        return self._ask("update", f"JobId={job}", "Requeue=1")

    def exclude(self, job: str, node_names: str) -> Answer:
        """Keep a job that waits from these nodes, instead of the ones it was kept from before."""
        return self._ask("update", f"JobId={job}", f"ExcNodeList={node_names}")

    def write_script(self, job: str, path: str) -> Answer:
        """Write the batch script that Slurm keeps of a job to a file."""
        return self._ask("write", "batch_script", job, path)

    def list_comments(self, uid: int) -> Answer:
        """The jobs of a user that wait or run: on each line the number, a blank, and the comment."""
        return self._run(("squeue", "--noheader", f"--user={uid}", "--format=%A %k"))

    def submit(self, *words: str) -> Answer:
        """Submit a job. Tried once: an answer that got lost may have been a yes."""
        return self.runner(("sbatch", "--parsable", *words), self.timeout_s)

    def _ask(self, *arguments: str) -> Answer:
        return self._run(("scontrol", *arguments))

    def _run(self, command: tuple[str, ...]) -> Answer:
        answer = self.runner(command, self.timeout_s)
        for pause_s in self.pauses_s:
            if not answer.may_work_later:
                break
            self.clock.sleep_s(pause_s)
            answer = self.runner(command, self.timeout_s)
        return answer
