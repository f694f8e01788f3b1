"""Runs cells of the matrix: several jobs at once on one sandbox, all of them preempted together."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hpc_elastic.status import snapshot
from hpc_elastic.testing.sandbox.options import SandboxOptions
from hpc_elastic.testing.sandbox.sandbox import Sandbox
from tests.integration.slurm.bench import ENDED, TEMPLATE, Bench, a_sandbox
from tests.integration.slurm.matrix import Observed, Site, Submission, observe
from tests.waiting import wait_until

JOB = Path(__file__).with_name("matrix_job.py")
# So many steps every rank takes before anything is done to its job.
_STEPS = 8
_LONG_S = 480.0
_CONTINUED = re.compile(r"continuation job (\d+)")


@dataclass
class Field:
    """One sandbox with a submit directory, and the jobs on it."""

    bench: Bench

    @classmethod
    def on(cls, sandbox: Sandbox) -> Field:
        return cls(Bench(sandbox, sandbox.user_directory()))

    @property
    def sandbox(self) -> Sandbox:
        return self.bench.sandbox

    def submit(
        self,
        submission: Submission,
        *options: str,
        lives: int = 1,
        path: str = "",
        script: Path = JOB,
        env: Mapping[str, str] | None = None,
    ) -> str:
        """One job of the matrix, on two of the nodes; `path` is a folder that comes first in its PATH."""
        template = self.bench.folder / f"elastic-{submission.signal_to.strip(':')}.sh"
        text = TEMPLATE.read_text()
        if submission.signal_to == "none":
            text = "".join(line for line in text.splitlines(True) if not line.startswith("#SBATCH --signal"))
        template.write_text(text)
        given = ("-N", "2", "--time=30", *submission.sbatch, *options)
        known = self.bench.variables | {"LIVES": str(lives)} | dict(env or {})
        if path:
            known["PATH"] = f"{path}:{os.environ['PATH']}"
        return self.sandbox.sbatch(*given, template, script, cwd=self.bench.folder, env=known)

    def wait_until_training(self, jobs: Sequence[str], attempt: int = 1) -> None:
        def are_all() -> bool:
            return all(self._is_training(job, attempt) for job in jobs)

        wait_until(are_all, _LONG_S, f"jobs {jobs} train")

    def preempt_all(self) -> None:
        """Another job wants every node, for two seconds."""
        words = ["-N", str(len(self.sandbox.nodes)), "--exclusive", "-p", "high", "-o", "/dev/null"]
        self.sandbox.sbatch(*words, "--chdir=/", "--wrap=exec sleep 2")

    def finish(self, job: str) -> None:
        """Let the first life end by itself."""
        (self.bench.run_dir(job) / "finish").touch()

    def written(self, job: str) -> int:
        """How much the ranks of a job have written so far, in bytes."""
        return sum(path.stat().st_size for path in self.bench.run_dir(job).glob("logs/*/*/*.out"))

    def wait_until_over(self, job: str, timeout_s: float = _LONG_S) -> Observed:
        """When neither the job nor the one that continues it will do anything more."""
        wait_until(lambda: self._is_over(job), timeout_s, f"job {job} is over")
        record = self.sandbox.job(job)
        return observe(self.bench.run_dir(job), record, self.bench.output(job))

    def wait_for_restart(self, job: str, number: int) -> None:
        wait_until(lambda: self.sandbox.job(job)["Restarts"] == str(number), _LONG_S, f"{job} comes back")

    def _is_training(self, job: str, attempt: int) -> bool:
        assert self.sandbox.job(job)["JobState"] not in ENDED, self.bench.output(job)
        paths = list(self.bench.run_dir(job).glob(f"logs/{attempt}/*/*.out"))
        return len(paths) >= 2 and all(path.read_text().count("\nstep ") > _STEPS for path in paths)

    def _is_over(self, job: str) -> bool:
        record = self.sandbox.job(job)
        if record["JobState"] not in ENDED or self._is_processed(job):
            return False
        continued = _CONTINUED.search(self.bench.output(job))
        return continued is None or self.sandbox.job(continued.group(1))["JobState"] in ENDED

    def _is_processed(self, job: str) -> bool:
        """Whether squeue still has it: PREEMPTED and the like may be on the way back to PENDING."""
        asked = self.sandbox.run(["squeue", "-h", "-j", job, "-t", "PD,R,CG,S,SI,CF"])
        return bool(asked.stdout.strip())


def run_site(
    site: Site,
    submissions: Sequence[Submission],
    say: Callable[[str], object] = sys.stderr.write,
    patience: int = 1,
) -> dict[Submission, Observed]:
    """Preempt one job for each of `submissions`, all at the same moment, on a sandbox of their own.

    Slurm gives them `patience` times as long as the site says.
    """
    with a_sandbox(patient(site.options, patience)) as sandbox:
        field = Field.on(sandbox)
        jobs = {submission: field.submit(submission) for submission in submissions}
        field.wait_until_training(list(jobs.values()))
        field.preempt_all()
        seen = {}
        for submission, job in jobs.items():
            seen[submission] = field.wait_until_over(job)
            say(f"{site} {submission}: {seen[submission]}\n")
        return seen


def patient(options: SandboxOptions, patience: int) -> SandboxOptions:
    """The same site, where everything that Slurm kills after a while has so many times as long."""
    return replace(options, grace_s=patience * options.grace_s, kill_wait_s=patience * options.kill_wait_s)


def preempt_again_and_again(times: int) -> dict[str, object]:
    """Preempt one job in each of its lives, then let it finish: what it cost."""
    with a_sandbox(SandboxOptions(nodes=2)) as sandbox:
        field = Field.on(sandbox)
        job = field.submit(Submission("steps", requeue=True), lives=times)
        for life in range(times):
            field.wait_until_training([job], life + 1)
            sandbox.preempt(job, seconds=1)
            field.wait_for_restart(job, life + 1)
        field.wait_until_over(job)
        record, run = sandbox.job(job), snapshot.read(field.bench.run_dir(job))
        return {
            "preemptions": times,
            "restarts": int(record["Restarts"]),
            "state": record["JobState"],
            "failures": max(one.proposal.failures for one in run.rounds),
            "causes": sorted({one.why_stopped.reason.value for one in run.attempts if one.why_stopped}),
            "requeue_claims": sum(len(one.requeues) for one in run.attempts),
        }
