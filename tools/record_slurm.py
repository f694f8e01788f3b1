"""Records what the Slurm of this machine prints, for the tests of everything that reads it.

    python -m tools.record_slurm tests/recordings

As root, in about three minutes: a sandbox of four nodes is brought up, jobs are taken through every state,
and what each command says becomes a file in `slurm-<version>/`. For a release that is not installed here:
`tools/slurm_root in RELEASE python3 -m tools.record_slurm tests/recordings`. Names of users, hosts,
kernels and folders are replaced.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import socket
import subprocess
import sys
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Final

from hpc_elastic.slurm import job_record
from hpc_elastic.testing.sandbox.options import SandboxOptions
from hpc_elastic.testing.sandbox.sandbox import Sandbox
from tests.integration.slurm.bench import a_sandbox
from tests.integration.slurm.controller_stops import is_ended
from tests.waiting import wait_until

# Free text that looks like fields, as users write it.
NAME: Final = "my job x=1"
COMMENT: Final = "of JobState=FAILED y=2"
GRACE_S: Final = 20

# Its step outlives TERM, so that a grace time and a requeue can be looked at.
_STUBBORN: Final = """#!/bin/bash
trap '' TERM
if [ -n "$1" ]; then env >"$1.batch"; srun -n1 -N1 sh -c 'env >"$0.step"' "$1"; fi
srun sh -c "trap '' TERM; while :; do sleep 1; done"
"""

# What a node list may look like; `show hostnames` says which names it means, or refuses it.
NODE_LISTS: Final = (
    "n1",
    "n[1-4]",
    "n5-8",
    "a,b,,c",
    " n1 , n2",
    "gpu[01-03,07],login1",
    "n[08-11]",
    "n[098-101]",
    "n[9-010]",
    "x[1-3],x[2-4]",
    "n[1-2][3-4]",
    "a[01-03,7]b[1-2]",
    "[1-2]",
    "n[1-2]-ib",
    "a[1,2]x[3]y",
    "n[1-2",
    "n1]",
    "n[[1]]",
    "n[]",
    "n[3-1]",
    "n[a-b]",
    "n[1--2]",
    "n[-2]",
    "n[1,,2]",
    "n[1-2-3]",
)


class Recorder:
    """One folder of recordings, filled from one sandbox."""

    def __init__(self, sandbox: Sandbox, folder: Path) -> None:
        self.sandbox = sandbox
        self._folder = folder
        self._home = sandbox.user_directory()
        self._script = self._home / "t.sh"
        self._script.write_text(_STUBBORN)
        self._complaints: dict[str, dict[str, object]] = {}

    def keep(self, name: str, *words: str) -> str:
        """What a command prints, as a file; also returned."""
        done = self._run(*words)
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(words)}: {done.stderr.strip()}")
        self.write(name, done.stdout)
        return done.stdout

    def keep_job(self, name: str, job: str) -> str:
        """A job's record."""
        return self.keep(name, "scontrol", "show", "job", "-o", job)

    def keep_complaint(self, name: str, *words: str) -> None:
        """The status and the complaint of a command that does not do what it is told."""
        done = self._run(*words)
        said = {"status": done.returncode, "output": done.stdout, "complaint": self._clean(done.stderr)}
        self._complaints[name] = {"command": " ".join(words), **said}

    def write(self, name: str, text: str) -> None:
        (self._folder / name).write_text(self._clean(text))

    def write_complaints(self) -> None:
        self.write("complaints.json", json.dumps(self._complaints, indent=2) + "\n")

    def keep_environment(self, name: str, prefix: Path) -> None:
        """What Slurm has put into the environment of a batch script and of a step."""
        for where in ("batch", "step"):
            lines = Path(f"{prefix}.{where}").read_text().splitlines()
            slurm = sorted(line for line in lines if line.startswith("SLURM"))
            self.write(f"{name}-{where}.txt", "\n".join(slurm) + "\n")

    def submit(self, *options: str, wrap: str = "", environment: str = "") -> str:
        """A job; without `wrap` one whose steps ignore TERM. Its environment goes to a file beside it."""
        given = [f"--wrap={wrap}"] if wrap else [str(self._script), environment]
        return self.sandbox.sbatch(*options, *given, cwd=self._home)

    def file(self, name: str) -> Path:
        return self._home / name

    def wait(self, job: str, name: str, value: str, timeout_s: float = 150.0) -> None:
        """Until the job's field `name` begins with `value`; `!` in front of it: does not."""
        is_not, wanted = value.startswith("!"), value.removeprefix("!")

        def is_there() -> bool:
            # Not `Sandbox.job`: the comment has fields of its own.
            found = job_record.fields(self._run("scontrol", "show", "job", "-o", job).stdout, job) or {}
            return found.get(name, "").startswith(wanted) is not is_not

        wait_until(is_there, timeout_s, f"{name} of job {job} is {value}")

    def as_root(self, *words: str) -> None:
        subprocess.run(words, env=self.sandbox.environment(), check=True, timeout=60)

    def _run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return self.sandbox.run(words, env={"LC_ALL": "C", "SLURM_TIME_FORMAT": "standard"})

    def _clean(self, text: str) -> str:
        for own, instead in (
            (str(self._home), "/home/ann/work"),
            (str(self.sandbox.directory), "/var/slurm"),
            (self.sandbox.user.name, "ann"),
            (platform.version(), "#1"),
            (platform.release(), "6.1.0"),
        ):
            text = text.replace(own, instead)
        return re.sub(rf"\b{re.escape(socket.gethostname())}\b", "site", text)


def record_site(recorder: Recorder) -> None:
    """What does not depend on jobs."""
    recorder.keep("config.txt", "scontrol", "show", "config")
    recorder.keep("partitions.txt", "scontrol", "show", "partition", "-o")
    recorder.keep("partition.txt", "scontrol", "show", "partition", "-o", "low")
    recorder.keep("nodes.txt", "scontrol", "show", "node", "-o")
    pairs: dict[str, list[str] | None] = {}
    for text in NODE_LISTS:
        done = recorder.sandbox.run(["scontrol", "show", "hostnames", text])
        # Its status is 0 also when it refuses.
        pairs[text] = None if done.stderr.strip() or done.returncode else done.stdout.split()
    recorder.write("hostnames.json", json.dumps(pairs, indent=2) + "\n")


def record_waiting_and_running(recorder: Recorder) -> None:
    """A job from its start to its cancellation, beside one that is held and one that waits."""
    held = recorder.submit("--hold", wrap="true")
    recorder.keep_job("held.txt", held)
    seen = recorder.file("environment")
    given = ("--job-name", NAME, "--comment", COMMENT, "--time=10", "--requeue", "--cpus-per-task=2")
    job = recorder.submit("-N2", *given, environment=str(seen))
    wait_until(Path(f"{seen}.step").exists, 60.0, "the job has written its environment")
    recorder.keep_environment("environment", seen)
    recorder.keep_job("running.txt", job)
    recorder.keep(
        "comments.txt", "squeue", "--noheader", f"--user={recorder.sandbox.user.uid}", "--format=%i %k"
    )
    waits = recorder.submit("-N4", "--exclusive", "--time=10", wrap="true")
    recorder.wait(waits, "Reason", "Resources")
    recorder.keep_job("pending.txt", waits)
    recorder.sandbox.run(["scancel", waits, held], check=True)
    recorder.as_root("scontrol", "suspend", job)
    recorder.keep_job("suspended.txt", job)
    recorder.as_root("scontrol", "resume", job)
    recorder.wait(job, "JobState", "RUNNING")
    recorder.keep_job("resumed.txt", job)
    recorder.sandbox.run(["scancel", job], check=True)
    recorder.wait(job, "JobState", "CANCELLED")
    recorder.keep_job("cancelled.txt", job)


def record_preemption(recorder: Recorder) -> None:
    """Three jobs at once: one comes back after its grace time, one does not, one is cancelled in it."""
    named = ("--job-name", NAME, "--comment", COMMENT)
    job = recorder.submit("-N2", "--time=10", "--requeue", *named)
    taken = recorder.submit("-N1", "--time=10", "--no-requeue")
    cancelled = recorder.submit("-N1", "--requeue")
    for one in (job, taken, cancelled):
        recorder.wait(one, "JobState", "RUNNING")
    recorder.sandbox.sbatch(
        "-N4", "--exclusive", "-p", "high", "--wrap=exec sleep 2", cwd=recorder.sandbox.user.home
    )
    for one in (job, taken, cancelled):
        recorder.wait(one, "PreemptTime", "2")
    recorder.keep_job("preempted.txt", job)
    recorder.keep_job("preempted-without-limit.txt", cancelled)
    recorder.sandbox.run(["scancel", cancelled], check=True)
    recorder.wait(cancelled, "JobState", "CANCELLED")
    recorder.keep_job("cancelled-in-grace.txt", cancelled)
    recorder.wait(taken, "JobState", "PREEMPTED")
    recorder.keep_job("taken.txt", taken)
    recorder.wait(job, "JobState", "PENDING")
    recorder.keep_job("waiting.txt", job)
    recorder.wait(job, "JobState", "RUNNING")
    recorder.sandbox.run(["scontrol", "requeue", "Incomplete", job], check=True)
    recorder.keep_job("requeued.txt", job)
    recorder.sandbox.run(["scancel", job], check=True)


def record_arrays(recorder: Recorder) -> None:
    array = recorder.submit("--array=0-3%2", "--time=10")
    wait_until(
        lambda: len(recorder.sandbox.run(["squeue", "-h", "-t", "R", "-j", array]).stdout.split("\n")) > 2,
        60.0,
        "two elements run",
    )
    recorder.keep_job("array.txt", array)
    words = ("squeue", "-h", "-r", "-t", "all", "-o", "%A %F %K", "-j", array)
    recorder.keep("array-tasks.txt", *words)
    recorder.sandbox.run(["scancel", "--state=PENDING", array], check=True)
    recorder.keep_job("array-released.txt", array)
    recorder.sandbox.run(["scancel", array], check=True)
    recorder.keep_job("array-cancelled.txt", array)


def record_ends(recorder: Recorder) -> None:
    """What becomes of jobs that nobody stops, and what Slurm says that cannot do as it is told."""
    limited = recorder.submit("--time=1", wrap="exec sleep 600")
    done, failed = recorder.submit(wrap="true"), recorder.submit(wrap="exit 3")
    for name, job in (("completed", done), ("failed", failed), ("timeout", limited)):
        recorder.wait(job, "JobState", name.upper())
        recorder.keep_job(f"{name}.txt", job)
    recorder.keep_complaint("unknown job", "scontrol", "show", "job", "-o", "4711")
    recorder.keep_complaint("requeue of a completed job", "scontrol", "requeue", "Incomplete", done)
    recorder.keep_complaint("requeue of an unknown job", "scontrol", "requeue", "Incomplete", "4711")
    recorder.keep_complaint("cancel of a completed job", "scancel", done)
    with is_ended(recorder.sandbox):
        for what in (("show", "job", "-o", done), ("requeue", "Incomplete", done), ("show", "config")):
            recorder.keep_complaint(f"{what[0]} {what[1]} without a controller", "scontrol", *what)
        recorder.keep_complaint("scancel without a controller", "scancel", done)


def record(parent: Path) -> Path:
    """Everything, as `slurm-<version>` in `parent`."""
    with a_sandbox(SandboxOptions(nodes=4, grace_s=GRACE_S)) as sandbox:
        said = sandbox.run(["scontrol", "--version"], check=True).stdout.strip()
        folder = parent / f"slurm-{said.split()[-1]}"
        folder.mkdir(parents=True, exist_ok=True)
        recorder = Recorder(sandbox, folder)
        record_site(recorder)
        record_waiting_and_running(recorder)
        record_preemption(recorder)
        record_arrays(recorder)
        record_ends(recorder)
        recorder.write_complaints()
    today = datetime.now(timezone.utc).date().isoformat()
    system = platform.freedesktop_os_release()["PRETTY_NAME"]
    text = f"`scontrol --version`: {said}, on {system}; {today}, by tools/record_slurm.py\n"
    (folder / "source.txt").write_text(text)
    return folder


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("parent", type=Path, help="where the folder of the release is made: tests/recordings")
    print(record(parser.parse_args(arguments).parent))
    return 0


if __name__ == "__main__":
    sys.exit(main())
