"""Hostile names and arguments through a real Slurm: they reach the workers as they were given."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from hpc_elastic.testing.sandbox.sandbox import Sandbox
from tests import hostile
from tests.integration.slurm.bench import ENDED, ROOT, TEMPLATE

pytestmark = [pytest.mark.needs_slurm, pytest.mark.timeout(480)]


@dataclass
class Place:
    """A directory with a hostile name, and a script with another in it."""

    sandbox: Sandbox
    folder: Path

    @property
    def script(self) -> Path:
        return self.folder / f"-s {hostile.DIRECTORY}.py"

    @property
    def run_dir(self) -> Path:
        return self.folder / f"run {hostile.DIRECTORY}"

    @classmethod
    def make(cls, sandbox: Sandbox, parent: Path) -> Place:
        place = cls(sandbox, parent / hostile.DIRECTORY)
        place.folder.mkdir()
        place.script.write_text(hostile.TELLS)
        os.chown(place.folder, sandbox.user.uid, sandbox.user.gid)
        return place

    def ends_well(self, job: str) -> None:
        record = self.sandbox.wait_for_state(job, ENDED, timeout_s=240.0)
        assert record["JobState"] == "COMPLETED", [
            each.read_text(errors="replace")[-2000:] for each in self.folder.rglob("slurm-*")
        ]


@pytest.fixture
def place(slurm_sandbox: Sandbox, user_dir: Path) -> Place:
    return Place.make(slurm_sandbox, user_dir)


def test_a_submitted_script_gets_every_argument_as_it_was_given(place: Place) -> None:
    words = [
        "submit",
        "--nodes",
        "1",
        "--run-dir",
        str(place.run_dir),
        "--name",
        "-x $(touch executed) 'a' #b %j",
    ]
    slurm = ["--slurm", "comment=$(touch executed); `touch executed` 'a' # b \"c\"", "--slurm", "time=5"]

    done = place.sandbox.run(
        [sys.executable, "-m", "hpc_elastic", *words, *slurm, place.script, *hostile.ARGUMENTS],
        cwd=place.folder,
        env={"PYTHONPATH": str(ROOT)},
    )

    assert done.returncode == 0, done.stderr
    job = done.stdout.split()[1]
    place.ends_well(job)
    (output,) = place.run_dir.glob("logs/*/*/0.out")
    assert hostile.told(output) == hostile.ARGUMENTS
    assert (place.run_dir / "submission" / f"slurm-{job}.out").exists()
    record = place.sandbox.job(job)
    assert record["JobName"] == "-x $(touch executed) 'a' #b %j"
    assert hostile.marks(place.folder.parent, place.sandbox.user.home) == []


def test_the_template_hands_on_every_argument_and_keeps_its_runs_in_a_directory_of_any_name(
    place: Place,
) -> None:
    job = place.sandbox.sbatch(
        "--nodes=1", TEMPLATE, place.script, *hostile.ARGUMENTS,
        cwd=place.folder,
        env={"PYTHONPATH": str(ROOT), "HPC_ELASTIC_PYTHON": sys.executable},
    )  # fmt: skip

    place.ends_well(job)
    (output,) = place.folder.glob(f"hpc_elastic_runs/*-{job}/logs/*/*/0.out")
    assert hostile.told(output) == hostile.ARGUMENTS
    assert hostile.marks(place.folder.parent, place.sandbox.user.home) == []
