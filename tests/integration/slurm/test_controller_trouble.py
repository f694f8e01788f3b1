"""Preempted while Slurm's commands do not work, or while others ask for the requeue too: nothing is lost."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from hpc_elastic.status import snapshot
from hpc_elastic.testing.sandbox.options import SandboxOptions
from tests.integration.slurm.bench import a_sandbox
from tests.integration.slurm.controller_stops import MOMENTS, Seen, run_stops, stands_still
from tests.integration.slurm.matrix import Observed, Submission, faults
from tests.integration.slurm.matrix_run import JOB, Field

pytestmark = [pytest.mark.needs_slurm, pytest.mark.timeout(600)]

# Long enough for the requester that takes the claim of a killed one over, which waits for ten seconds.
GRACE_S = 60
USUAL = Submission("steps", requeue=True)
WORKS = 'exec /usr/bin/scontrol "$@"'
# What `scontrol` does in a job, beside writing down how it was called, and whether by what srun started.
TROUBLES = {
    "works": WORKS,
    "is missing": "exit 127",
    "fails": "echo 'Unable to contact slurm controller (connect failure)' >&2; exit 1",
    "hangs": "exec sleep 30",
    "is asked by the user too": WORKS,
    "is asked by two at once": WORKS,
    "is asked by one that is killed": f"""
if [ "$1" = requeue ] && mkdir killed; then kill -KILL $PPID; exit 1; fi
{WORKS}""",
    "is asked while TERM comes again and again": WORKS,
}
COME_BACK = tuple(trouble for trouble in TROUBLES if trouble != "is missing")
# The Python of the job: with each requester it starts a second one.
TWICE = f"""#!/bin/bash
if [[ "$*" == *"requeue --step-status"* ]]; then {sys.executable} "$@" >>$(dirname "$0")/second 2>&1 & fi
exec {sys.executable} "$@"
"""


@dataclass
class Troubled:
    """All of the jobs, preempted together, and what became of each."""

    site: Field
    jobs: dict[str, str] = field(default_factory=dict)
    seen: dict[str, Observed] = field(default_factory=dict)

    def folder(self, trouble: str) -> Path:
        return self.site.bench.folder / trouble.replace(" ", "-")

    def submit(self, trouble: str) -> None:
        folder = self.folder(trouble)
        folder.mkdir(mode=0o777)
        folder.chmod(0o777)
        answer = TROUBLES[trouble].replace("mkdir killed", f"mkdir {folder}/killed")
        _write_program(
            folder / "scontrol",
            f"#!/bin/sh\nby=${{SLURM_LAUNCH_NODE_IPADDR:+$SLURMD_NODENAME: }}\n"
            f'echo "$by$*" >>{folder}/asked\n{answer}\n',
        )
        script = JOB.with_name("requeues_itself.py") if "user" in trouble else JOB
        if "two" in trouble:
            _write_program(folder / "python", TWICE)
        env = {"HPC_ELASTIC_PYTHON": str(folder / "python")} if "two" in trouble else {}
        self.jobs[trouble] = self.site.submit(USUAL, path=str(folder), script=script, env=env)

    def asked(self, trouble: str) -> list[str]:
        return (self.folder(trouble) / "asked").read_text().splitlines()

    def output(self, trouble: str) -> str:
        return self.site.bench.output(self.jobs[trouble])

    def terminate_again_and_again(self, job: str) -> None:
        """Slurm's own TERM is one more."""
        for to_whom in (("--batch",), (), ("--batch",), ()):
            self.site.sandbox.run(["scancel", "--signal=TERM", *to_whom, job])


def _write_program(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


@pytest.fixture(scope="module")
def stops() -> Iterator[Future[dict[str, Seen]]]:
    """Beside the other jobs: most of the time of both is waiting for Slurm."""
    with ThreadPoolExecutor(1) as thread:
        yield thread.submit(run_stops, 10.0, stands_still)


@pytest.fixture(scope="module")
def troubled(stops: Future[dict[str, Seen]]) -> Iterator[Troubled]:
    with a_sandbox(SandboxOptions(cpus_per_node=4, grace_s=GRACE_S, kill_wait_s=15)) as sandbox:
        found = Troubled(Field.on(sandbox))
        for trouble in TROUBLES:
            found.submit(trouble)
        found.site.wait_until_training(list(found.jobs.values()))
        found.site.preempt_all()
        found.terminate_again_and_again(found.jobs["is asked while TERM comes again and again"])
        found.seen = {trouble: found.site.wait_until_over(job) for trouble, job in found.jobs.items()}
        yield found


@pytest.mark.parametrize("trouble", TROUBLES)
def test_every_rank_has_saved_and_no_step_is_lost(troubled: Troubled, trouble: str) -> None:
    """A requeue by the user while agents still leave may end one before it has said that it saved."""
    seen = troubled.seen[trouble]

    assert (seen.told, seen.lost_steps, list(faults(seen))) == (1, 0, []), seen
    assert seen.saved == "all" or "user" in trouble, seen


@pytest.mark.parametrize("trouble", COME_BACK)
def test_the_job_comes_back_once(troubled: Troubled, trouble: str) -> None:
    """Where the controller seems down, the batch side tries until Slurm requeues by itself."""
    seen = troubled.seen[trouble]
    run = snapshot.read(troubled.site.bench.run_dir(troubled.jobs[trouble]))

    assert (seen.state, seen.restarts, seen.comes_back) == ("COMPLETED", 1, "requeue"), troubled.output(
        trouble
    )
    assert len(run.attempts) == 2


def test_without_the_command_the_status_says_that_it_is_saved_and_the_output_what_to_type(
    troubled: Troubled,
) -> None:
    job, seen = troubled.jobs["is missing"], troubled.seen["is missing"]

    assert (troubled.site.sandbox.job(job)["ExitCode"], seen.restarts) == ("80:0", 0)
    assert "does not come back" in seen.said
    assert f"--run-dir {troubled.site.bench.run_dir(job)}" in seen.said


def test_of_two_requesters_at_once_one_asks(troubled: Troubled) -> None:
    trouble = "is asked by two at once"
    asked = troubled.asked(trouble)
    said = troubled.output(trouble) + (troubled.folder(trouble) / "second").read_text()

    assert sum(words.startswith("requeue") for words in asked) == 1, asked
    assert said.count("is requeued (") == 1, said


def test_after_a_requester_that_was_killed_the_next_one_takes_its_claim_over(troubled: Troubled) -> None:
    trouble = "is asked by one that is killed"
    run = snapshot.read(troubled.site.bench.run_dir(troubled.jobs[trouble]))

    assert "was killed (status 137, try 1)" in troubled.output(trouble)
    assert [claim.claim for claim in run.attempts[0].requeues] == [0, 1]


def test_the_controller_is_asked_once_for_each_thing_that_happens_to_a_job(troubled: Troubled) -> None:
    asked = troubled.asked("works")
    by_agents = [words.partition(": ")[::2] for words in asked if words.startswith("n")]

    assert len({node for node, _ in by_agents}) == 1, "of two agents that heard the same preemption one asks"
    assert {words[:8] for _, words in by_agents} == {"show job"}
    # Two starts, before the requeue, and after it until it shows: mostly at once. A late answer is one more.
    assert 4 <= sum(words.startswith("show job") for words in asked) <= 7, asked
    assert sum(words.startswith("show partition") for words in asked) == 2, "at each start"
    assert sum(words.startswith("requeue") for words in asked) == 1
    assert len(asked) <= 12, asked


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_controller_that_stands_still_costs_a_job_nothing(
    stops: Future[dict[str, Seen]], moment: str
) -> None:
    seen = stops.result()[moment]

    assert seen.written_meanwhile > 0 or moment != "while it trains"
    assert list(faults(seen.job)) == []
    assert (seen.job.state, seen.job.restarts, seen.job.lost_steps) == ("COMPLETED", seen.requeues, 0), seen
