"""Agents with no Slurm command in PATH, as in a container: the batch side has them, and asks for them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from hpc_elastic.rendezvous.record import Outcome, Reason
from hpc_elastic.status.snapshot import RunSnapshot
from hpc_elastic.testing.sandbox.options import SandboxOptions
from tests.integration.slurm.bench import ROOT, Bench, a_sandbox
from tests.integration.slurm.digits_job import STEPS, digits, logs, steps_of, wait_for_step
from tests.integration.slurm.matrix import observe
from tests.integration.slurm.matrix_run import JOB
from tests.waiting import wait_until

pytestmark = [pytest.mark.needs_slurm, pytest.mark.timeout(600)]

GRACE_S = 60
COMMANDS = frozenset(
    ("scontrol", "squeue", "srun", "sbatch", "scancel", "sacct", "sacctmgr", "salloc", "sinfo")
)
# Takes the commands away from the agents and their workers, and leaves them to the batch side.
FOR_STEPS_ONLY = """#!/bin/sh
if [ -n "${SLURM_STEP_ID-}" ]; then PATH=/nowhere; export PATH; fi
exec "$@"
"""
# Every Python of the job writes down which programs it starts, and which part of the job it is. An agent
# tries `scontrol`, and finds none: that starts nothing.
WITNESS = """
import os, shutil, sys
part = "worker" if "RANK" in os.environ else "agent" if os.environ.get("SLURM_STEP_ID") else "batch side"
def note(event, found):
    if event in ("subprocess.Popen", "os.exec", "os.posix_spawn", "os.system"):
        program = shutil.which(os.fsdecode(found[0]).split()[0])
        if program is not None:
            with open(os.environ["WITNESS"], "ab", 0) as file:
                file.write(f"{part}: {program}\\n".encode())
sys.addaudithook(note)
"""
# When there is a periodic save its agent is killed with it, as by the kernel for want of memory.
TAKES_ITS_AGENT_ALONG = f"""
import os, runpy, signal, sys, threading
def end():
    while not any(files for _, _, files in os.walk(os.environ["HPC_ELASTIC_CHECKPOINT_DIR"])):
        threading.Event().wait(0.2)
    threading.Event().wait(1.0)
    os.kill(os.getppid(), signal.SIGKILL)
if os.environ["HPC_ELASTIC_ATTEMPT"] == "1" and os.environ["RANK"] == "1":
    threading.Thread(target=end, daemon=True).start()
sys.argv = {[*digits(step_seconds=0.1)]!r}
sys.path.insert(0, os.path.dirname(sys.argv[0]))
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@dataclass
class Site:
    """One sandbox, and a job for each thing that makes a job come back."""

    bench: Bench
    jobs: dict[str, str] = field(default_factory=dict)

    def submit(self, kind: str, *options: str, prefix: str, words: Sequence[str]) -> None:
        witness = self.bench.folder / "witness"
        seen = self.bench.folder / f"{kind}.seen"
        env = {"HPC_ELASTIC_LAUNCH_PREFIX": prefix, "PYTHONPATH": f"{witness}:{ROOT}", "WITNESS": str(seen)}
        self.jobs[kind] = self.bench.submit("-N", "2", "-c", "1", *options, words=tuple(words), env=env)

    def started_by(self, kind: str, part: str) -> set[str]:
        """The names of the programs that a part of a job has started."""
        lines = (self.bench.folder / f"{kind}.seen").read_text().splitlines()
        return {Path(line.partition(": ")[2]).name for line in lines if line.startswith(f"{part}: ")}

    def run(self, kind: str) -> RunSnapshot:
        return self.bench.run(self.jobs[kind])

    def output(self, kind: str) -> str:
        return self.bench.output(self.jobs[kind])


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    """Two jobs are preempted together; of two others one comes to its time limit, and one loses an agent."""
    with a_sandbox(SandboxOptions(grace_s=GRACE_S, kill_wait_s=30)) as sandbox:
        found = Site(Bench(sandbox, sandbox.user_directory()))
        folder = found.bench.folder
        prefix, witness, killer = folder / "prefix", folder / "witness", folder / "killer.py"
        witness.mkdir(mode=0o755)
        (witness / "sitecustomize.py").write_text(WITNESS)
        prefix.write_text(FOR_STEPS_ONLY)
        prefix.chmod(0o755)
        killer.write_text(TAKES_ITS_AGENT_ALONG)
        conf = ("--rdzv-conf", "heartbeat=1.5,last_call_timeout=3")
        # The batch side tells the workers half a minute before, if Slurm has not yet. With the usual lead it
        # might have before they begin; so the others come later, too.
        limit = ("--time=1", "--signal=USR2@1", "--nodelist=n[3-4]")
        found.submit("limited", *limit, prefix=str(prefix), words=(str(JOB),))
        wait_until(lambda: logs(found.bench, found.jobs["limited"], 0), 180.0, "the limited job trains")
        found.submit("killed", "--nodelist=n[3-4]", prefix=str(prefix), words=(*conf, str(killer)))
        slow = digits(step_seconds=0.25)  # neither is near its end when both train
        found.submit("preempted", "--nodelist=n[1-2]", prefix=str(prefix), words=slow)
        found.submit("contained", "--nodelist=n[1-2]", prefix="env PATH=/nowhere", words=slow)
        for kind in ("preempted", "contained"):
            wait_for_step(found.bench, found.jobs[kind], 10)
        sandbox.preempt(found.jobs["preempted"], seconds=1)
        for job in found.jobs.values():
            found.bench.wait_for_restart(job)
        for job in found.jobs.values():
            found.bench.end_of(job)
        yield found


CAUSES = {
    "preempted": Reason.PREEMPTED,
    "contained": Reason.PREEMPTED,
    "limited": Reason.TIME_LIMIT,
    "killed": Reason.NODE_FAILURE,
}


@pytest.mark.parametrize("kind", CAUSES)
def test_the_batch_side_asks_and_the_job_resumes_and_finishes(site: Site, kind: str) -> None:
    record = site.bench.sandbox.job(site.jobs[kind])
    why = site.run(kind).attempts[0].why_stopped

    assert (record["JobState"], record["Restarts"]) == ("COMPLETED", "1"), site.output(kind)
    assert why is not None
    assert why.reason is CAUSES[kind]
    # On a busy machine who asked may be killed before it has said so.
    asked = site.output(kind).count("asked Slurm to requeue") + site.output(kind).count("is requeued (")
    assert asked <= 1


def test_before_the_time_limit_every_rank_saves_and_no_step_is_lost(site: Site) -> None:
    job = site.jobs["limited"]

    seen = observe(site.bench.run_dir(job), site.bench.sandbox.job(job), site.output("limited"))

    assert (seen.saved, seen.lost_steps, seen.told) == ("all", 0, 1), site.output("limited")


@pytest.mark.parametrize("kind", ["preempted", "contained"])
def test_every_rank_saves_and_takes_each_step_once(site: Site, kind: str) -> None:
    run = site.run(kind)

    assert {one.outcome for one in run.presences if one.attempt == 1} == {Outcome.SAVED}, site.output(kind)
    for rank in range(2):
        first, second = (steps_of(path) for path in logs(site.bench, site.jobs[kind], rank))
        assert first + second == list(range(STEPS))


def test_after_the_death_of_an_agent_it_resumes_from_the_last_periodic_save(site: Site) -> None:
    last = steps_of(logs(site.bench, site.jobs["killed"], 0)[-1])

    assert 0 < last[0] < STEPS
    assert last[-1] == STEPS - 1


@pytest.mark.parametrize("kind", CAUSES)
def test_no_agent_and_no_worker_has_started_a_command_of_slurm(site: Site, kind: str) -> None:
    by_agents, by_workers = site.started_by(kind, "agent"), site.started_by(kind, "worker")

    assert any(name.startswith("python") for name in by_agents), "their workers"
    assert (by_agents | by_workers).isdisjoint(COMMANDS)
    if kind != "contained":
        assert "scontrol" in site.started_by(kind, "batch side")


def test_an_agent_in_a_container_knows_the_grace_time_that_the_batch_shell_has_read(site: Site) -> None:
    said = site.output("contained")

    assert "the batch shell asks Slurm" in said
    assert "heard SIGTERM: cause not known yet, 55 s left" in said, "GraceTime less a margin"
