"""A new user of a cluster, who types what the README says; for the test of that, and its benchmark."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from hpc_elastic.testing.sandbox import Sandbox
from hpc_elastic.testing.sandbox.options import SandboxOptions
from tests.examples import folders, pages
from tests.examples.example_runs import ROOT
from tests.integration.slurm.bench import a_sandbox
from tests.waiting import wait_until

PATIENCE_S: Final = 240.0
STEPS: Final = 80
NODES: Final = 4  # of the page's first job
# The job that the page preempts, the only one with arguments, is not over before that.
TRAIN_ONE_STEP: Final = """
import sys, time

def train_one_step(step):
    print("step", step, flush=True)
    time.sleep(0.05)
    while step == 10 and sys.argv[1:] and ctx.attempt == 1 and ctx.notice() is None:
        time.sleep(0.02)
"""
PARTS: Final = ("pyproject.toml", "README.md", "LICENSE", "hpc_elastic", "sbatch")


@dataclass
class NewUser:
    """An account that has nothing but a clone, a script, and a Slurm.

    `job` is the last one submitted, `took_s` how long each line took that was typed.
    """

    sandbox: Sandbox
    folder: Path
    job: str = ""
    took_s: dict[str, float] = field(default_factory=dict)

    @property
    def clone(self) -> Path:
        return self.folder / "hpc-elastic"

    def run_dir(self) -> Path:
        return self.folder / "hpc_elastic_runs" / f"{self.sandbox.cluster}-{self.job}"

    def types(self, line: str) -> str:
        """Run a line in a shell that has the new environment active, once there is one; what it prints."""
        for shown, meant in (
            ("<path of your clone>", self.clone),
            ("4711", self.job),
            ("preemptible", "low"),
        ):
            line = line.replace(shown, str(meant))
        ended = self.sandbox.run(
            ["bash", "-c", f"! [ -e ~/envs ] || . ~/envs/train/bin/activate; {line}"],
            cwd=self.folder,
            env=self._without_downloads(),
            timeout_s=PATIENCE_S,
        )
        assert ended.returncode == 0, f"{line}\n{ended.stdout}{ended.stderr}"
        if line.startswith("python3 -m venv"):
            self._lend_packages()
        if line.startswith("sbatch"):
            self.job = ended.stdout.split()[-1]
        return ended.stdout

    def _without_downloads(self) -> dict[str, str]:
        path = f"{sys.base_prefix}/bin:{self.sandbox.environment()['PATH']}"
        return {
            "HOME": str(self.folder),
            "PATH": path,
            "PIP_NO_INDEX": "1",
            "PIP_NO_BUILD_ISOLATION": "0",  # pip's way of saying that it is off
            "PIP_NO_CACHE_DIR": "1",
        }

    def _lend_packages(self) -> None:
        """What pip would fetch is there already; of the package itself only what it builds counts."""
        (library,) = (self.folder / "envs" / "train").glob("lib/python3*/site-packages")
        lent = [entry for entry in sys.path if entry.endswith(("site-packages", "dist-packages"))]
        (library / "lent.pth").write_text("\n".join(lent))

    def _trains(self) -> bool:
        """Whether each rank does: one that has not begun when it is preempted has nothing to save."""
        return all(5 in folders.steps(self.run_dir(), rank) for rank in range(NODES))

    def types_the_quickstart(self) -> tuple[dict[str, str], Path]:
        """Every line of it, and of the first job the status once that trains.

        What each command has printed, by its first two words, and the run of the first job.
        """
        told, first = {}, self.folder
        for line in pages.typed("README.md", "Quickstart"):
            began_s = time.monotonic()
            if line.startswith("hpc-elastic status"):
                wait_until(self._trains, PATIENCE_S, "the first job trains")
                first = self.run_dir()
                self.took_s["until it trains"] = time.monotonic() - began_s
                began_s = time.monotonic()
            told[" ".join(line.split()[:2])] = self.types(line)
            self.took_s[line] = time.monotonic() - began_s
        return told, first


@contextmanager
def a_new_user() -> Iterator[NewUser]:
    """On a sandbox of its own."""
    with a_sandbox(SandboxOptions(grace_s=20)) as sandbox:
        new = NewUser(sandbox, sandbox.user_directory())
        (new.folder / "train.py").write_text(pages.training_script(TRAIN_ONE_STEP, STEPS))
        (new.folder / "train.py").chmod(0o644)
        sandbox.run(["mkdir", new.clone], check=True)
        sandbox.run(["cp", "-r", *(ROOT / part for part in PARTS), new.clone], check=True)
        yield new
