"""The main job on a real Slurm: trained, preempted, saved, requeued, resumed and finished."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import pytest

from hpc_elastic.rendezvous.record import Cause, Outcome, Reason
from hpc_elastic.testing.sandbox.options import SandboxOptions
from hpc_elastic.testing.sandbox.sandbox import Sandbox
from tests.integration.slurm.bench import TEMPLATE, Bench, a_sandbox
from tests.integration.slurm.digits_job import (
    DIGITS,
    STEPS,
    digits,
    logs,
    processes_of,
    steps_of,
    told_by,
    wait_for_step,
)
from tests.waiting import wait_until

pytestmark = [pytest.mark.needs_slurm, pytest.mark.timeout(600)]

GRACE_S = 60
_PATIENT = SandboxOptions(grace_s=GRACE_S, kill_wait_s=30)

SITES = {
    "requeue": _PATIENT,
    "cancel": replace(_PATIENT, preempt_mode="cancel"),
    "user signal": replace(_PATIENT, user_signal=True),
}
# So slow that the job is far from its end when its nodes are taken, also where that takes some seconds.
SLOWLY_S = 0.15
# What each site sends at the start of the grace time.
SIGNALS = {"requeue": "SIGTERM", "cancel": "SIGTERM", "user signal": "SIGUSR2"}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Sandbox]:
    with a_sandbox(SITES["requeue"]) as sandbox:
        yield sandbox


@pytest.fixture
def bench(cluster: Sandbox) -> Bench:
    return Bench(cluster, cluster.user_directory())


def test_a_job_on_four_nodes_trains_with_one_agent_per_node_and_keeps_every_ranks_output(
    bench: Bench,
) -> None:
    job = bench.submit("-N", "4", words=digits(steps=40, step_seconds=0.0))

    state, code, lines = bench.end_of(job)

    assert (state, code) == ("COMPLETED", "0:0"), "\n".join(lines)
    assert bench.sandbox.job(job)["UserId"] == f"{bench.sandbox.user.name}({bench.sandbox.user.uid})"
    run = bench.run(job)
    assert [member.name for member in run.rounds[0].members] == ["n1", "n2", "n3", "n4"]
    assert len(run.rounds) == 1
    assert [presence.outcome for presence in run.presences] == [Outcome.DONE] * 4
    for rank in range(4):
        (path,) = logs(bench, job, rank)
        assert f"rank {rank} of 4 starts at step 0" in path.read_text()
        assert steps_of(path) == list(range(40))
    assert run.has_succeeded


@pytest.mark.parametrize("site", SITES)
def test_a_preempted_job_saves_at_one_step_comes_back_by_itself_and_finishes_as_if_undisturbed(
    site: str, cluster: Sandbox
) -> None:
    if site == "requeue":
        _preempt_and_finish(Bench(cluster, cluster.user_directory()), SIGNALS[site])
        return
    with a_sandbox(SITES[site]) as sandbox:
        _preempt_and_finish(Bench(sandbox, sandbox.user_directory()), SIGNALS[site])


def _preempt_and_finish(bench: Bench, signal_name: str) -> None:
    job = bench.submit("-N", "4", words=digits(step_seconds=SLOWLY_S))
    wait_for_step(bench, job, 10)

    bench.sandbox.preempt(job, seconds=2)
    # Before the grace time is over: so it was the job itself that asked, and every agent had left.
    wait_until(
        lambda: bench.sandbox.job(job)["Restarts"] == "1", GRACE_S - 5.0, f"job {job} is requeued by itself"
    )
    state, code, lines = bench.end_of(job)

    text = "\n".join(lines)
    assert (state, code) == ("COMPLETED", "0:0"), text
    assert bench.sandbox.job(job)["Restarts"] == "1"
    assert "start 0, 4 node(s)" in text, "the output of the first life is kept"
    assert "start 1, 4 node(s)" in text
    _check_record(bench, job, signal_name)
    _check_steps(bench, job)
    told = told_by(logs(bench, job, 0))
    assert len(told) == STEPS + 1
    assert told == _told_by_four_undisturbed_ranks(bench), "not as if nothing had happened"


def _told_by_four_undisturbed_ranks(bench: Bench) -> list[str]:
    """The same world adds up in the same order, so every loss has to be the same."""
    run_dir = bench.folder / "undisturbed"
    agent = [bench.variables["HPC_ELASTIC_PYTHON"], "-m", "hpc_elastic", "run", "--standalone"]
    options = ["--nproc-per-node", "4", "--run-dir", str(run_dir)]
    command = [*agent, *options, *digits(step_seconds=0.0)]
    bench.sandbox.run(command, cwd=bench.folder, env=bench.variables, check=True, timeout_s=180.0)
    return told_by([run_dir / "logs" / "1" / "1" / "0.out"])


def _check_record(bench: Bench, job: str, signal_name: str) -> None:
    run = bench.run(job)
    first, second = run.rounds
    assert [attempt.start.restart_count for attempt in run.attempts] == [0, 1]
    assert run.attempts[0].why_stopped is not None
    assert run.attempts[0].why_stopped.reason is Reason.PREEMPTED
    assert run.attempts[0].notice is not None
    assert run.attempts[0].notice.signal == signal_name
    assert len(run.attempts[0].requeues) == 1
    assert first.end is not None
    assert first.end.cause is Cause.DRAIN
    assert {one.outcome for one in run.presences if one.attempt == 1} == {Outcome.SAVED}
    assert {one.outcome for one in run.presences if one.attempt == 2} == {Outcome.DONE}
    assert second.proposal.failures == 0, "a preemption is no failure"


def _check_steps(bench: Bench, job: str) -> None:
    """No gap and no repeat on any rank, and all ranks stopped at the same step."""
    stop = bench.run(job).rounds[0].stop
    assert stop is not None
    for rank in range(4):
        first, second = (steps_of(path) for path in logs(bench, job, rank))
        assert first + second == list(range(STEPS))
        assert first[-1] == stop.step


def test_a_cancelled_job_stays_cancelled_and_leaves_no_process(bench: Bench) -> None:
    job = bench.submit("-N", "4", words=digits(steps=100_000))
    wait_for_step(bench, job, 5)
    assert processes_of(bench.sandbox, job)

    bench.sandbox.run(["scancel", job], check=True)

    wait_until(lambda: not processes_of(bench.sandbox, job), 120.0, "no process is left")
    state, _, lines = bench.end_of(job)
    assert (state, bench.sandbox.job(job)["Restarts"]) == ("CANCELLED", "0"), "\n".join(lines)
    run = bench.run(job)
    assert any("the job was cancelled" in line for line in lines), "\n".join(lines)
    assert None not in [presence.outcome for presence in run.presences], "\n".join(lines)
    assert run.attempts[0].why_stopped is not None
    assert run.attempts[0].why_stopped.reason is Reason.CANCELLED
    assert run.attempts[0].requeues == ()
    assert not run.has_succeeded


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("absent.py",), "absent.py does not exist"),
        (("--nnodes", "4:2", DIGITS), "--nnodes 4:2"),
        (("--nnodes", "0", DIGITS), "--nnodes 0"),
        (("--nnodes", "3", DIGITS), "this job has 2 nodes"),
        (("--what", DIGITS), "--what"),
        (("--run-dir", DIGITS, DIGITS), "is not a directory"),
        (("--run-dir", "/proc/run", DIGITS), "/proc/run"),
    ],
)
def test_a_bad_command_line_is_one_message_for_the_whole_job_and_starts_nothing(
    bench: Bench, words: tuple[str, ...], named: str
) -> None:
    state, code, lines = bench.end_of(bench.submit("-N", "2", words=words))

    assert (state, code) == ("FAILED", "64:0")
    assert len(lines) == 1
    assert named in lines[0]
    assert [path.name for path in bench.folder.iterdir() if not path.name.startswith("slurm-")] == []


def test_a_job_submitted_without_requeue_comes_back_all_the_same_and_says_so(bench: Bench) -> None:
    job = bench.submit("-N", "2", "--no-requeue", words=digits(step_seconds=SLOWLY_S))
    wait_for_step(bench, job, 10)
    assert bench.sandbox.job(job)["Requeue"] == "0"

    bench.sandbox.preempt(job, seconds=1)
    wait_until(lambda: bench.sandbox.job(job)["Restarts"] == "1", GRACE_S - 5.0, f"job {job} is requeued")
    state, _, lines = bench.end_of(job)

    assert state == "COMPLETED"
    assert any("Requeue=0" in line and "switched on" in line for line in lines)


def test_a_job_that_a_rank_submits_is_a_run_of_its_own(bench: Bench) -> None:
    """It inherits the environment of a worker of another run, and says from where it was started."""
    inner = bench.folder / "inner.py"
    inner.write_text("from hpc_elastic import worker\nprint(worker.context().world_size, 'of its own')\n")
    outer = bench.folder / "outer.py"
    outer.write_text(
        "import os, subprocess\n"
        "if os.environ['RANK'] == '0':\n"
        f"    words = ['sbatch', '--parsable', '-N', '1', {str(TEMPLATE)!r}, {str(inner)!r}]\n"
        "    print('inner job', subprocess.check_output(words, text=True).strip(), flush=True)\n"
    )
    job = bench.submit("-N", "2", words=(str(outer),))

    assert bench.end_of(job)[:2] == ("COMPLETED", "0:0"), bench.output(job)
    submitted = re.search(r"inner job (\d+)", bench.output(job))
    assert submitted is not None, bench.output(job)
    other = submitted.group(1)
    assert bench.end_of(other)[:2] == ("COMPLETED", "0:0"), bench.output(other)
    assert "1 of its own" in bench.output(other)
    for one in (job, other):
        run = bench.run(one)
        assert run.has_succeeded
        assert [attempt.start.job_id for attempt in run.attempts] == [one]
