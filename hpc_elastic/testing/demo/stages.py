"""The two stages: a private real Slurm, and the embedded local cluster."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from hpc_elastic.clock import SYSTEM_CLOCK
from hpc_elastic.submission.files import SubmissionFiles
from hpc_elastic.submission.supervisor_files import SupervisorState
from hpc_elastic.testing.demo.story import NODES, SCRIPT_ARGUMENTS
from hpc_elastic.testing.demo.watching import JobLook, Seen
from hpc_elastic.testing.sandbox.options import SandboxOptions
from hpc_elastic.testing.sandbox.sandbox import Sandbox

if TYPE_CHECKING:
    from hpc_elastic.submission.job import Job

GRACE_S = 20
RIVAL_S = 3
_PATIENCE_S = 180.0

_TEMPLATE = Path("sbatch", "elastic.sh")
_EXAMPLE = Path("examples", "digits_numpy.py")


class SlurmStage:
    """Real jobs of two users on a sandbox; the training belongs to an ordinary one."""

    def __init__(self, sandbox: Sandbox, checkout: Path, scratch: Path) -> None:
        self.run_dir = scratch / "run"
        self._sandbox, self._checkout, self._scratch = sandbox, checkout, scratch
        self._job = ""

    @classmethod
    @contextmanager
    def open(cls, checkout: Path, scratch: Path) -> Iterator[SlurmStage]:
        """A sandbox that is up; it goes down with the block, whatever happens in it."""
        sandbox = Sandbox.up(scratch / "slurm", SandboxOptions(nodes=NODES, grace_s=GRACE_S))
        try:
            place = scratch / "job"
            place.mkdir()
            os.chown(place, sandbox.user.uid, sandbox.user.gid)
            yield cls(sandbox, checkout, place)
        finally:
            sandbox.down()

    def describe(self) -> str:
        """What it is, for the audience."""
        version = self._sandbox.run(["sbatch", "--version"]).stdout.strip()
        return f"a private {version} is up: {NODES} nodes; a preempted job has {GRACE_S} s and is requeued"

    def submit(self) -> str:
        """Submit the training, with the options that a user would give."""
        output = ("--output", self._scratch / "slurm-%j.out")
        arguments = ("--run-dir", self.run_dir, self._checkout / _EXAMPLE, *SCRIPT_ARGUMENTS)
        self._job = self._sandbox.sbatch(
            "-N", str(NODES), *output, self._checkout / _TEMPLATE, *arguments,
            cwd=self._scratch, env={"HPC_ELASTIC_PYTHON": sys.executable},
        )  # fmt: skip
        user = self._sandbox.user.name
        return f"{user} submits job {self._job}: sbatch -N {NODES} {_TEMPLATE} {_EXAMPLE}"

    def disturb(self) -> str:
        """Another user's job of higher priority takes all the nodes for a few seconds."""
        rival = self._sandbox.preempt(self._job, seconds=RIVAL_S)
        return f"another user's job {rival} has a higher priority and takes all {NODES} nodes"

    def look(self) -> JobLook:
        """What `scontrol show job` says."""
        record = self._sandbox.job(self._job)
        return JobLook(record["JobState"], int(record.get("Restarts", "0")))

    def finished(self, seen: Seen) -> bool:
        """Whether Slurm shows an end."""
        return seen.job.state == "COMPLETED"


class LocalStage:
    """The same agents on this machine, one process tree for each simulated node; no Slurm."""

    def __init__(self, checkout: Path, scratch: Path) -> None:
        self.run_dir = scratch / "run"
        self._example = checkout / _EXAMPLE
        self._job: Job | None = None

    @classmethod
    @contextmanager
    def open(cls, checkout: Path, scratch: Path) -> Iterator[LocalStage]:
        """The stage; a job that still runs is cancelled with the block."""
        place = scratch / "job"
        place.mkdir()
        stage = cls(checkout, place)
        try:
            yield stage
        finally:
            stage.clear()

    def describe(self) -> str:
        """What it is, for the audience."""
        return f"no Slurm: the embedded local cluster plays {NODES} nodes on this machine"

    def submit(self) -> str:
        """Submit the training from Python."""
        import hpc_elastic

        # Ctrl-C between the start of the job and the name we know it by would leave it running. The
        # job's own processes set their signal masks themselves.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
        try:
            self._job = hpc_elastic.submit(
                self._example, *SCRIPT_ARGUMENTS,
                nodes=NODES, nproc_per_node=1, cluster="local", run_dir=self.run_dir,
            )  # fmt: skip
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return f'hpc_elastic.submit("{_EXAMPLE}", nodes={NODES}, cluster="local")'

    def disturb(self) -> str:
        """Rehearse a preemption."""
        if self._job is not None:
            self._job.preempt()
        return "job.preempt(): every node gets the notice that its time is over"

    def look(self) -> JobLook:
        """What the job handle says; a start after the first one counts as a restart."""
        if self._job is None:
            return JobLook("PENDING", 0)
        status = self._job.status()
        return JobLook(status.state.value, max(0, status.attempts - 1))

    def finished(self, seen: Seen) -> bool:
        """Whether the run has ended well."""
        return seen.job.state == "COMPLETED"

    def clear(self) -> None:
        """End what still runs, and wait until the supervisor is gone too."""
        if self._job is not None and not self._job.done():
            self._job.cancel()
            self._job.wait(_PATIENCE_S)
        supervisor = SupervisorState.read(SubmissionFiles(self.run_dir))
        deadline_s = SYSTEM_CLOCK.monotonic_s() + _PATIENCE_S
        while supervisor is not None and supervisor.is_alive() and SYSTEM_CLOCK.monotonic_s() < deadline_s:
            SYSTEM_CLOCK.sleep_s(0.02)
