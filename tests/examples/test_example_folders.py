"""Each example does what its README says: the lines are run as they stand there."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from hpc_elastic.testing.etcd_server import EtcdServer
from hpc_elastic.testing.sandbox import Sandbox
from hpc_elastic.testing.sandbox.options import SandboxOptions
from tests.conftest import PROBES
from tests.examples import folders
from tests.integration.slurm.bench import ENDED, a_sandbox
from tests.waiting import wait_until

PATIENCE_S: Final = 480.0
pytestmark = pytest.mark.timeout(3 * PATIENCE_S + 60)  # the first job waits for all that start beside it
# What an example needs besides the package; in the order in which they are submitted. The pool finds nodes
# for both its jobs at once, then comes the slowest start, because all share one machine.
NEEDS: Final = {
    "pool": (),
    "with_lightning": ("torch", "lightning"),
    "with_accelerate": ("torch", "accelerate"),
    "torch_ddp": ("torch",),
    "with_jax": ("jax",),
    "preemptible": (),
    "bash": (),
    "with_etcd": ("etcd",),
    "shared_directory": (),
    "one_node": (),
}
FRAMEWORKS: Final = ("with_lightning", "with_accelerate", "with_jax")
ON_THIS_MACHINE: Final = (*FRAMEWORKS, "torch_ddp", "bash", "one_node")
ON_SLURM: Final = tuple(name for name in NEEDS if name != "one_node")
PREEMPTED: Final = (*FRAMEWORKS, "torch_ddp", "bash", "preemptible")
SAMPLES, EPOCHS = 512, 2


def with_needs(names: tuple[str, ...]) -> list[object]:
    return [
        pytest.param(name, marks=[getattr(pytest.mark, f"needs_{need}") for need in NEEDS[name]])
        for name in names
    ]


def is_possible(name: str) -> bool:
    return all(PROBES[need]().found is not None for need in NEEDS[name])


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The run directory of an example that ran to its end on this machine, by its name."""
    made: dict[str, Path] = {}

    def run(name: str) -> Path:
        if name not in made:
            folder = folders.like_a_clone(tmp_path_factory.mktemp(name))
            ended = subprocess.run(
                ["bash", "-c", folders.command(name, "hpc-elastic run")],
                cwd=folder,
                env={**os.environ, **folders.surroundings()},
                capture_output=True,
                text=True,
                timeout=PATIENCE_S,
                check=False,
            )
            assert ended.returncode == 0, ended.stdout + ended.stderr
            (made[name],) = (folder / "hpc_elastic_runs").iterdir()
        return made[name]

    return run


@dataclass
class Job:
    """An example as a job, preempted in the middle where it is of `PREEMPTED`."""

    name: str
    number: str
    folder: Path
    sandbox: Sandbox

    @property
    def run_dir(self) -> Path:
        return self.folder / "hpc_elastic_runs" / f"{self.sandbox.cluster}-{self.number}"

    def output(self) -> str:
        return "\n".join(path.read_text() for path in sorted(self.folder.glob("slurm-*.out")))

    def live(self) -> dict[str, str]:
        """Lets it happen; the record of the job that has ended."""
        if self.name in PREEMPTED or self.name == "pool":
            last = 1 if self.name == "pool" else 0  # of a pool both
            self._wait(lambda: any(step >= 8 for step in folders.steps(self.run_dir, last)), "it trains")
            self.sandbox.preempt(f"{self.number}_1" if self.name == "pool" else self.number, seconds=1)
        self._wait(lambda: self.first_record()["JobState"] in ENDED, "it ends")
        return self.first_record()

    def first_record(self) -> dict[str, str]:
        """Of the job, or of the element that nobody preempts."""
        return self.sandbox.job(f"{self.number}_0" if self.name == "pool" else self.number)

    def _wait(self, condition: Callable[[], bool], what: str) -> None:
        try:
            wait_until(condition, PATIENCE_S, f"{self.name}: {what}")
        except AssertionError as late:
            raise AssertionError(f"{late}\n{self.output()}") from None


@pytest.fixture(scope="module")
def jobs(
    request: pytest.FixtureRequest, make_etcd_server: Callable[..., EtcdServer]
) -> Iterator[dict[str, tuple[Job, Future[dict[str, str]]]]]:
    """All selected examples at once on one sandbox: most of the time of each is waiting."""
    selected = [item.nodeid for item in request.session.items if "runs_as_a_job" in item.nodeid]
    names = [name for name in ON_SLURM if any(f"[{name}]" in one for one in selected) and is_possible(name)]
    with (
        a_sandbox(SandboxOptions(nodes=6, cpus_per_node=1, grace_s=30)) as sandbox,
        ThreadPoolExecutor(len(names)) as threads,
    ):
        endpoint = make_etcd_server().endpoint if "with_etcd" in names else ""
        submitted = [submit(name, sandbox, endpoint) for name in names]
        yield {job.name: (job, threads.submit(job.live)) for job in submitted}


def submit(name: str, sandbox: Sandbox, endpoint: str) -> Job:
    folder = folders.like_a_clone(sandbox.user_directory())
    line = folders.command(name, "sbatch")
    said = sandbox.run(
        ["bash", "-c", line], cwd=folder, env={**folders.surroundings(), "ETCD": endpoint}, check=True
    ).stdout
    return Job(name, said.split()[-1], folder, sandbox)


def test_every_folder_has_a_readme_and_is_tested_here() -> None:
    assert sorted(NEEDS) == folders.NAMES
    assert {path.name for path in folders.EXAMPLES.iterdir() if path.is_dir()} - {"__pycache__"} == set(NEEDS)


@pytest.mark.needs_slurm
@pytest.mark.parametrize("name", with_needs(ON_SLURM))
def test_an_example_runs_as_a_job_and_ends_as_if_it_had_not_been_preempted(
    name: str,
    jobs: dict[str, tuple[Job, Future[dict[str, str]]]],
    undisturbed: Callable[[str], Path],
) -> None:
    job, life = jobs[name]
    expected = folders.results(undisturbed(name if name in ON_THIS_MACHINE else "one_node"))

    record = life.result(2 * PATIENCE_S)

    assert (record["JobState"], record["ExitCode"]) == ("COMPLETED", "0:0"), job.output()
    assert record["Restarts"] == ("1" if name in PREEMPTED else "0"), job.output()
    told = folders.results(job.run_dir)
    if name == "pool":  # another world adds up in another order
        assert len(told) == 1
        assert len({path.parent for path in job.run_dir.glob("logs/*/*/0.out")}) > 1, "it went on without one"
        return
    assert told == expected
    if name in FRAMEWORKS:
        for rank in (0, 1):
            assert folders.steps(job.run_dir, rank) == [*range(SAMPLES * EPOCHS // 16)], "no gap, no repeat"
        assert sorted(folders.samples(job.run_dir)) == sorted([*range(SAMPLES)] * EPOCHS)


@pytest.mark.parametrize("name", with_needs(ON_THIS_MACHINE))
def test_an_example_runs_on_this_machine(name: str, undisturbed: Callable[[str], Path]) -> None:
    run_dir = undisturbed(name)

    assert len(folders.results(run_dir)) == 1
    if name in FRAMEWORKS:
        assert sorted(folders.samples(run_dir)) == sorted([*range(SAMPLES)] * EPOCHS)
