"""Slurm cancels preempted jobs at once and gives them no grace: other jobs go on with their runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from hpc_elastic.status import snapshot
from hpc_elastic.testing.sandbox.options import SandboxOptions
from tests.integration.slurm.bench import ENDED, Bench, a_sandbox, changes
from tests.integration.slurm.digits_job import STEPS, digits, logs, steps_of, wait_for_step
from tests.integration.slurm.pool_bench import Pool
from tests.integration.slurm.result_trials import Watched
from tests.waiting import wait_until

pytestmark = [pytest.mark.needs_slurm, pytest.mark.timeout(600)]

TAKEN = "n[1-6]"
# Refuses what would bring a job back under its own number.
REFUSES = """#!/bin/sh
case "$1" in requeue|update) echo "Requested operation is presently disabled" >&2; exit 1;; esac
exec /usr/bin/scontrol "$@"
"""
NOWHERE = {"HPC_ELASTIC_LAUNCH_PREFIX": "env PATH=/nowhere"}
LONG = 100_000
SOME = 400
PATIENCE_S = 180.0


@dataclass
class Scene:
    """Six nodes are taken at once from jobs of every kind; of two other jobs the batch host is lost."""

    bench: Bench
    followed: Watched
    cancelled: Watched
    pool: Pool
    jobs: dict[str, str] = field(default_factory=dict)
    looked: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def begin(cls, bench: Bench) -> Scene:
        followed, cancelled = (
            Watched(bench.sandbox, bench.folder / name) for name in ("followed", "cancelled")
        )
        for node, run in (("n1", followed), ("n2", cancelled)):
            run.submit(nodes=1, slurm={"time": 10, "nodelist": node})
        pool = Pool.submit(bench, "--exclude=n[1-3,6-10]", size=2, least=1)
        return cls(bench, followed, cancelled, pool)

    def submit(self, kind: str, *options: str, words: tuple[str, ...], **env: str) -> None:
        self.jobs[kind] = self.bench.submit(*options, words=words, env=env)

    def submit_the_lost(self) -> None:
        commands = self.bench.folder / "commands"
        commands.mkdir(mode=0o755)
        (commands / "scontrol").write_text(REFUSES)
        (commands / "scontrol").chmod(0o755)
        soon = ("--nnodes", "1:2", "--rdzv-conf", "heartbeat=1.5")
        path = f"{commands}:/usr/bin:/bin"
        some = digits(*soon, steps=SOME, step_seconds=0.1)
        self.submit("bereft", "--nodelist=n[7-8]", "-N2", words=some, PATH=path)
        self.submit("mute", "--nodelist=n[9-10]", "-N2", words=digits(*soon, steps=LONG), **NOWHERE)

    def submit_the_taken(self) -> None:
        """Last of all, for they come to an end by themselves."""
        words = digits(step_seconds=0.25)
        self.submit("contained", "--nodelist=n6", words=words, **NOWHERE)
        self.submit("element", "--array=3", "--nodelist=n3", "--output=%A_%a.out", words=words)
        self.jobs["element"] += "_3"
        for kind in ("contained", "element"):
            wait_for_step(self.bench, self.jobs[kind], 5)

    def lose_batch_hosts(self) -> None:
        for kind in ("bereft", "mute"):
            wait_for_step(self.bench, self.jobs[kind], 5)
        for host in ("n7", "n9"):
            self.bench.sandbox.kill_node(host)
        wait_until(
            lambda: len(self.steps("bereft")) > 1 and len(self.steps("bereft")[-1]) > 5,
            PATIENCE_S,
            "a later round",
        )
        for kind in ("bereft", "mute"):
            self.bench.sandbox.run(["scancel", "--signal=USR2", self.jobs[kind]], check=True)

    def take_nodes(self) -> None:
        """For so long that what goes on has to wait."""
        for run in (self.followed, self.cancelled):
            run.wait_for_work(1, 5)
        self.pool.wait_for_world(2)
        self.submit_the_taken()
        words = ("-N", "6", f"--nodelist={TAKEN}", "--exclusive", "-p", "high", "-o", "/dev/null")
        taker = self.bench.sandbox.sbatch(*words, "--chdir=/", "--wrap=exec sleep 600")
        for run in (self.followed, self.cancelled):
            self.looked[run.run_dir.name] = (continuation_of(run.run_dir), run.asks("look"))
            its_client_sees(run, "REQUEUED")
        self.cancelled.asks("cancel")
        self.bench.sandbox.run(["scancel", taker], check=True)

    def continuation(self, kind: str) -> dict[str, str]:
        """Slurm's record of the job that went on, when it is over."""
        found = continuation_of(self.bench.run_dir(self.jobs[kind]))
        return self.bench.sandbox.wait_for_state(found, ENDED, timeout_s=PATIENCE_S)

    def steps(self, kind: str) -> list[list[int]]:
        """Those of rank 0 in each of its lives."""
        return [steps_of(path) for path in logs(self.bench, self.jobs[kind], 0)]


def continuation_of(run_dir: Path) -> str:
    """The job that goes on, when the record says so."""
    wait_until(lambda: snapshot.read(run_dir).continuations, PATIENCE_S, f"a continuation in {run_dir}")
    return snapshot.read(run_dir).continuations[-1].job


def its_client_sees(run: Watched, *states: str) -> None:
    """Wait until the states that the first client has seen end like this."""
    run.wait_until(
        lambda: changes(run.states()[0])[-len(states) :] == list(states), f"its client sees {states}"
    )


@pytest.fixture(scope="module")
def scene() -> Iterator[Scene]:
    # No grace time, but between TERM and KILL as long as Slurm gives by default.
    with a_sandbox(SandboxOptions(nodes=10, preempt_mode="cancel", grace_s=0, kill_wait_s=30)) as sandbox:
        found = Scene.begin(Bench(sandbox, sandbox.user_directory()))
        try:
            found.submit_the_lost()
            found.lose_batch_hosts()
            found.take_nodes()
            yield found
        finally:
            for client in (*found.followed.clients, *found.cancelled.clients):
                client.kill()
                client.communicate()


def test_the_handle_follows_the_job_that_goes_on_and_gives_back_its_result(scene: Scene) -> None:
    run = scene.followed
    further, looked = scene.looked["followed"]

    run.wait_for_work(2)
    its_client_sees(run, "REQUEUED", "RUNNING")
    run.let_end()
    result = run.result()

    assert (looked["job_id"], looked["state"]) == (further, "REQUEUED")
    assert further != run.job_id
    assert (result["took"], result["attempt"]) == (list(range(len(result["took"]))), 2), run.story()
    run.has_no_false_end()
    assert changes(run.states()[0])[-3:] == ["REQUEUED", "RUNNING", "COMPLETED"]
    assert run.sandbox.job(run.job_id)["JobState"] == "PREEMPTED"


def test_a_cancel_ends_the_job_that_would_have_gone_on(scene: Scene) -> None:
    run = scene.cancelled
    further, _ = scene.looked["cancelled"]

    name, text, _ = run.asks("exception", "120")

    assert name == "RunCancelled", text
    assert scene.bench.sandbox.wait_for_state(further, ENDED)["JobState"] == "CANCELLED"
    assert len(snapshot.read(run.run_dir).attempts) == 1
    run.clients[0].communicate(timeout=PATIENCE_S)
    assert run.states()[0][-1] == "CANCELLED"


def test_an_element_of_an_array_goes_on_with_its_index(scene: Scene) -> None:
    record = scene.continuation("element")

    assert (record["JobState"], record["ArrayTaskId"]) == ("COMPLETED", "3")
    first, second = scene.steps("element")
    assert first + second == list(range(STEPS))


def test_the_elements_of_a_pool_go_on_as_jobs_of_their_own_and_meet_again(scene: Scene) -> None:
    pool = scene.pool

    pool.wait_for_world(2)
    (pool.checkpoints / "enough").touch()
    others = {one.job for one in pool.record().continuations}
    states = {scene.bench.sandbox.wait_for_state(job, ENDED)["JobState"] for job in others}

    assert (len(others), states) == (2, {"COMPLETED"}), pool.output()
    assert pool.gaps() == []
    assert pool.rounds()[-1].proposal.failures == 0


def test_where_the_agents_have_no_slurm_command_the_batch_shell_submits_it(scene: Scene) -> None:
    record = scene.continuation("contained")

    said = scene.bench.output(scene.jobs["contained"])
    assert f"continuation job {record['JobId']} goes on with the run" in said
    assert record["JobState"] == "COMPLETED", said
    first, second = scene.steps("contained")
    assert first + second == list(range(STEPS))


def test_where_the_batch_host_is_lost_and_the_requeue_refused_the_last_one_out_submits_it(
    scene: Scene,
) -> None:
    continuation_of(scene.bench.run_dir(scene.jobs["bereft"]))
    scene.bench.sandbox.start_node("n7")  # it was asked for by its name
    record = scene.continuation("bereft")

    assert record["JobState"] == "COMPLETED", scene.bench.output(record["JobId"])
    scene.bench.sandbox.wait_for_state(scene.jobs["bereft"], ENDED)  # no empty allocation stays
    *_, before, last = scene.steps("bereft")
    assert last == list(range(before[-1] + 1, SOME))


def test_without_any_slurm_command_the_loss_of_the_batch_host_is_told_by_the_record(scene: Scene) -> None:
    job = scene.jobs["mute"]

    wait_until(lambda: scene.bench.run(job).attempts[0].stays_away is not None, PATIENCE_S, "the reason")
    scene.bench.sandbox.run(["scancel", job])

    away = scene.bench.run(job).attempts[0].stays_away
    assert away is not None
    assert f"no agent has a Slurm command: job {job} keeps its nodes until it is ended" in away.why
