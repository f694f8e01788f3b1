"""The example of handwritten digits as a job, and what a test reads of it while it runs."""

from __future__ import annotations

import re
from pathlib import Path

from hpc_elastic.testing.sandbox.sandbox import Sandbox
from tests.integration.slurm.bench import ENDED, ROOT, Bench
from tests.waiting import wait_until

DIGITS = str(ROOT / "examples" / "digits_numpy.py")
UNHURRIED = str(Path(__file__).with_name("unhurried_digits.py"))
STEPS = 120
# At the pace of those that are not hurried: far more than a test needs before it hurries them.
MANY_STEPS = 600

_STEP = re.compile(r"^step (\d+) loss", re.MULTILINE)


def digits(*run_options: str, steps: int = STEPS, step_seconds: float = 0.05) -> tuple[str, ...]:
    paced = ("--steps", str(steps), "--step-seconds", str(step_seconds))
    return (*run_options, DIGITS, *paced, "--print-every", "1")


def unhurried_digits(*run_options: str) -> tuple[str, ...]:
    """They train for a minute, or until `hurry`."""
    paced = ("--steps", str(MANY_STEPS), "--step-seconds", "0.1")
    return (*run_options, UNHURRIED, *paced, "--print-every", "1")


def hurry(bench: Bench, job: str) -> None:
    """Let the steps that are left take no time."""
    (bench.run_dir(job) / "hurry").touch()


def logs(bench: Bench, job: str, rank: int) -> list[Path]:
    """The output files of one rank over all attempts and rounds, oldest first."""
    found = bench.run_dir(job).glob(f"logs/*/*/{rank}.out")
    return sorted(found, key=lambda path: (int(path.parts[-3]), int(path.parts[-2])))


def steps_of(path: Path) -> list[int]:
    return [int(found) for found in _STEP.findall(path.read_text())]


def wait_for_step(bench: Bench, job: str, step: int) -> None:
    def is_there() -> bool:
        state = bench.sandbox.job(job)["JobState"]
        assert state not in ENDED, f"{state} before step {step}:\n{bench.output(job)}"
        return any(step in steps_of(path) for path in logs(bench, job, 0))

    try:
        wait_until(is_there, 180.0, f"job {job} reaches step {step}")
    except AssertionError as late:
        raise AssertionError(f"{late}\n{bench.output(job)}") from None


def told_by(paths: list[Path]) -> list[str]:
    """The loss of each step and the accuracy at the end, as one rank printed them."""
    told = "".join(path.read_text() for path in paths)
    return re.findall(r"^(?:step \d+ loss|done after) .*$", told, re.MULTILINE)


def processes_of(sandbox: Sandbox, job: str) -> list[str]:
    """The command lines of all processes that have the job in their environment.

    Every sandbox counts its jobs from 1, so the cluster's name has to be there too; workers have it in
    their run's id alone.
    """
    of_batch = {f"SLURM_JOB_ID={job}".encode(), f"SLURM_CLUSTER_NAME={sandbox.cluster}".encode()}
    of_worker = {f"HPC_ELASTIC_RUN_ID={sandbox.cluster}-{job}".encode()}
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            environment = set((folder / "environ").read_bytes().split(b"\0"))
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if of_batch <= environment or of_worker <= environment:
            found.append(command)
    return found
