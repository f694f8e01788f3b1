"""`hpc_elastic.submit` on a real Slurm, as an ordinary user: a result, through a preemption too."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from hpc_elastic.status import snapshot
from hpc_elastic.submission.states import JobState
from hpc_elastic.testing.sandbox.options import SandboxOptions
from hpc_elastic.testing.sandbox.sandbox import Sandbox
from tests.integration.slurm.bench import ENDED, ROOT, a_sandbox
from tests.waiting import wait_until

pytestmark = [pytest.mark.needs_slurm, pytest.mark.timeout(900)]

STEPS = 100
# Function and arguments: it goes on until it is stopped in its first life, or in every one.
HELD_ONCE = ("train", f"{STEPS}", "1")
HELD = ("train", f"{STEPS}", "99")
PROGRAM = Path(__file__).with_name("submitter.py")
END_S = 240.0


@dataclass
class User:
    """Somebody on a login node of the sandbox, with one run."""

    sandbox: Sandbox
    run_dir: Path

    def runs(self, command: str, *words: str, env: dict[str, str] | None = None) -> Any:
        """What the user's program prints for a command."""
        done = self.sandbox.run(
            [sys.executable, PROGRAM, command, self.run_dir, *words],
            cwd=self.run_dir.parent,
            env={"PYTHONPATH": str(ROOT), **(env or {})},
            timeout_s=END_S + 30,
        )
        assert done.returncode == 0, f"{done.stderr}\n{self.story()}"
        return json.loads(done.stdout)

    def submits(
        self, function: str, *arguments: str, env: dict[str, str] | None = None, **options: Any
    ) -> str:
        return str(self.runs("submit", json.dumps(options), function, *arguments, env=env))

    def waits_for_step(self, step: int) -> None:
        outputs = self.run_dir / "logs"
        wait_until(
            lambda: any(f"step {step}\n" in path.read_text() for path in outputs.glob("*/*/0.out")),
            180,
            f"step {step} in {outputs}\n{self.story()}",
        )

    def story(self) -> str:
        """The output of the batch side, for the message of a failed test."""
        return "\n".join(path.read_text() for path in (self.run_dir / "submission").glob("slurm-*.out"))

    def may_end(self) -> None:
        """Let a function that is held come to its end."""
        (self.run_dir / "may_end").touch()


def is_unbroken(took: list[int]) -> bool:
    """Whether each step was taken once and in its turn, all that were wanted at least."""
    return took == list(range(len(took))) and len(took) >= STEPS


@pytest.fixture(scope="module")
def cluster() -> Iterator[Sandbox]:
    """With time to save on a machine that has other things to do as well."""
    with a_sandbox(SandboxOptions(grace_s=60, kill_wait_s=30, slurmd_timeout_s=60)) as sandbox:
        yield sandbox


@pytest.fixture
def user(cluster: Sandbox) -> User:
    return User(cluster, cluster.user_directory() / "run")


def test_a_function_of_a_script_runs_on_four_nodes_and_returns(user: User) -> None:
    job_id = user.submits("train", "3", nodes=4, name="tiny", slurm={"time": 5})

    results = user.runs("results", str(END_S))

    assert [one["host"] for one in results.values()] == ["n1", "n2", "n3", "n4"]
    assert all(one["took"] == [0, 1, 2] for one in results.values())
    record = user.sandbox.wait_for_state(job_id, ENDED, timeout_s=END_S)
    assert (record["JobState"], record["JobName"]) == ("COMPLETED", "tiny")
    assert (record["TimeLimit"], record["NumNodes"]) == ("00:05:00", "4")


def test_a_submitted_job_survives_a_preemption_and_takes_each_step_once(user: User) -> None:
    job_id = user.submits(*HELD_ONCE, nodes=4)
    user.waits_for_step(10)

    user.sandbox.preempt(job_id)
    results = user.runs("results", str(END_S))

    assert len(results) == 4
    assert user.runs("result", str(END_S)) == results["0"]
    assert results["0"]["host"] == "n1"
    assert all(is_unbroken(one["took"]) for one in results.values()), user.story()
    assert {one["attempt"] for one in results.values()} == {2}
    assert user.sandbox.wait_for_state(job_id, ENDED, timeout_s=END_S)["Restarts"] == "1"


def test_a_rehearsed_preemption_brings_the_job_back(user: User) -> None:
    job_id = user.submits(*HELD_ONCE, nodes=2, slurm={"nodelist": "n[1-2]"})
    user.waits_for_step(5)
    # It wants the same nodes, so it has them as soon as the job leaves them.
    next_one = ("-N2", "--nodelist=n[1-2]", "--exclusive", "-o/dev/null", "--wrap", "sleep 900")
    following = user.sandbox.sbatch(*next_one)
    record = user.run_dir.with_name("states")
    record.touch()
    record.chmod(0o666)

    # Nobody who looks meanwhile is told an end that is none.
    with ThreadPoolExecutor(1) as thread:
        result = thread.submit(user.runs, "keep_looking", str(record))
        try:
            wait_until(lambda: "RUNNING" in record.read_text(), END_S, "it is seen running")
            user.runs("preempt")
            wait_until(lambda: "REQUEUED" in record.read_text(), END_S, "it is seen in the queue")
        finally:
            user.sandbox.run(["scancel", following], check=True)
    *seen, last = record.read_text().split()
    assert last == "COMPLETED", user.story()
    assert all(not JobState(state).is_final for state in seen), seen
    assert result.result()["attempt"] == 2
    assert is_unbroken(result.result()["took"])
    assert user.sandbox.wait_for_state(job_id, ENDED, timeout_s=END_S)["Restarts"] == "1"


def test_a_run_that_goes_on_as_another_job_is_followed_there(user: User) -> None:
    """As on a site where a job can neither be requeued nor made one that can."""
    scontrol = user.run_dir.with_name("scontrol")
    refused = 'echo "Requested operation is presently disabled" >&2; exit 1'
    scontrol.write_text(
        f'#!/bin/sh\ncase "$1" in requeue|update) {refused};; esac\nexec {shutil.which("scontrol")} "$@"\n'
    )
    scontrol.chmod(0o755)
    path = f"{scontrol.parent}:{user.sandbox.environment()['PATH']}"
    job_id = user.submits(*HELD, nodes=1, env={"PATH": path})
    user.waits_for_step(5)

    user.runs("preempt")
    wait_until(lambda: len(snapshot.read(user.run_dir).attempts) == 2, END_S, f"it goes on\n{user.story()}")

    first, second = (one.start.job_id for one in snapshot.read(user.run_dir).attempts)
    assert (first, user.sandbox.job(job_id)["Restarts"]) == (job_id, "0")
    looked = user.runs("look")
    assert (looked["state"], looked["why"]) == ("RUNNING", f"job {second}: RUNNING"), user.story()
    user.may_end()
    assert is_unbroken(user.runs("result", str(END_S))["took"])


def test_a_job_that_may_not_come_back_does_not(user: User) -> None:
    job_id = user.submits("train", "100000", nodes=1, requeue=False)
    user.waits_for_step(3)

    user.runs("preempt")

    name, text, _ = user.runs("exception", str(END_S))
    assert name == "RunFailed"
    assert "the run ended PREEMPTED: told by the user, as the record says" in text
    assert len(snapshot.read(user.run_dir).attempts) == 1
    record = user.sandbox.job(job_id)
    assert (record["Requeue"], record["Restarts"]) == ("0", "0")


def test_an_exception_comes_back_with_the_traceback_of_its_rank(user: User) -> None:
    user.submits("fail", "1", nodes=2, max_restarts=0)

    name, text, cause = user.runs("exception", str(END_S))

    assert (name, text) == ("ValueError", "rank 1 cannot"), user.story()
    assert "rank 1 on n2" in cause
    assert 'raise ValueError(f"rank {rank} cannot")' in cause


def test_a_cancelled_job_is_over_and_says_so(user: User) -> None:
    job_id = user.submits("train", "100000", nodes=2)
    user.waits_for_step(3)

    user.runs("cancel")

    name, text, _ = user.runs("exception", str(END_S))
    assert name == "RunCancelled", text
    assert user.sandbox.wait_for_state(job_id, ENDED, timeout_s=END_S)["JobState"] == "CANCELLED"


def test_the_sites_default_against_requeues_does_not_reach_a_submitted_job(user: User) -> None:
    job_id = user.submits(
        "train", "1", nodes=1, env={"SBATCH_NO_REQUEUE": "1", "SBATCH_OPEN_MODE": "truncate"}
    )

    assert user.sandbox.job(job_id)["Requeue"] == "1"
    assert user.runs("result", str(END_S))["took"] == [0]


def test_setup_lines_come_before_the_agents_whatever_is_exported(user: User) -> None:
    setup = ["export FROM_SETUP=1", 'echo "setup says $FROM_SETUP"']
    container = {"HPC_ELASTIC_LAUNCH_PREFIX": "env PREFIXED=yes"}
    user.submits("train", "1", nodes=1, setup=setup, slurm={"export": "NONE"}, env=container)

    result = user.runs("result", str(END_S))
    assert (result["took"], result["by"]) == ([0], "yes")
    assert "setup says 1" in user.story()


def test_a_job_submits_another_without_passing_on_what_is_its_own(user: User) -> None:
    user.submits("nest", nodes=1)

    inner = Path(user.runs("result", str(END_S)))

    assert User(user.sandbox, inner).runs("result", str(END_S))["took"] == [0, 1, 2]


def test_what_slurm_refuses_is_one_clear_message_and_leaves_nothing(user: User) -> None:
    words = [sys.executable, "-m", "hpc_elastic", "submit", "--nodes", "1", "--run-dir", str(user.run_dir)]
    refused = user.sandbox.run(
        [*words, "--cluster", "slurm", "--slurm", "partition=gold", PROGRAM],
        env={"PYTHONPATH": str(ROOT)},
        cwd=user.run_dir.parent,
    )

    assert refused.returncode != 0
    assert refused.stderr.count("\n") == 1
    assert "Slurm did not take the job" in refused.stderr
    assert "invalid partition specified: gold" in refused.stderr
    assert list(user.run_dir.parent.iterdir()) == []
