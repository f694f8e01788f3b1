"""A job that is handed in while the controller is away: there is one in the end, and one only."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hpc_elastic.testing.sandbox.options import SandboxOptions
from hpc_elastic.testing.sandbox.sandbox import Sandbox
from tests.integration.slurm.bench import ENDED, ROOT, a_sandbox
from tests.integration.slurm.result_trials import controller_away
from tests.waiting import wait_until

pytestmark = [pytest.mark.needs_slurm, pytest.mark.timeout(600)]


class Client:
    """Somebody who submits with a `slurm.conf` of their own, in which calls are given up after 2 s."""

    def __init__(self, sandbox: Sandbox, folder: Path) -> None:
        self.sandbox = sandbox
        self.folder = folder
        self.conf = folder / "slurm.conf"
        self.text = Path(sandbox.environment()["SLURM_CONF"]).read_text() + "MessageTimeout=2\n"
        (folder / "train.py").write_text("print('trained')\n")

    def reach(self, *, controller: bool) -> None:
        """Look for the controller where it is, or on a port where nobody is."""
        text = self.text if controller else re.sub(r"SlurmctldPort=\d+", "SlurmctldPort=9", self.text)
        self.conf.with_suffix(".new").write_text(text)
        self.conf.with_suffix(".new").replace(self.conf)

    def submit(self) -> subprocess.Popen[str]:
        words = ("--nodes", "1", "--run-dir", str(self.folder / "run"), str(self.folder / "train.py"))
        user = self.sandbox.user
        return subprocess.Popen(
            [sys.executable, "-m", "hpc_elastic", "submit", *words],
            stdout=subprocess.PIPE,
            stderr=(self.folder / "said").open("w"),
            text=True,
            cwd=self.folder,
            env=self.sandbox.environment() | {"PYTHONPATH": str(ROOT), "SLURM_CONF": str(self.conf)},
            user=user.uid,
            group=user.gid,
            extra_groups=user.groups,
        )

    def is_told(self, text: str) -> None:
        try:
            wait_until(lambda: text in self.said(), 180, f"{text!r} is said")
        except AssertionError as late:
            raise AssertionError(f"{late}; so far: {self.said()}") from None

    def said(self) -> str:
        return (self.folder / "said").read_text()


@pytest.fixture
def client() -> Iterator[Client]:
    """On a Slurm of their own, whose controller takes no node for dead that it could not hear."""
    with a_sandbox(SandboxOptions(nodes=1, slurmd_timeout_s=300)) as sandbox:
        yield Client(sandbox, sandbox.user_directory())


def test_a_job_is_sent_until_it_is_heard_and_not_again_when_that_is_in_doubt(client: Client) -> None:
    client.reach(controller=False)
    submitting = client.submit()
    try:
        client.is_told("Slurm is out of reach")
        with controller_away(client.sandbox):
            client.reach(controller=True)
            client.is_told("Slurm did not say whether it took the job")
        told = submitting.communicate(timeout=240)[0]
    finally:
        if submitting.poll() is None:
            os.kill(submitting.pid, signal.SIGKILL)
            submitting.wait()

    assert submitting.returncode == 0, client.said()
    job = told.split()[1]
    assert client.sandbox.wait_for_state(job, ENDED, timeout_s=180.0)["JobState"] == "COMPLETED"
    shown = client.sandbox.run(["squeue", "-h", "-t", "all", "--format=%F %o"]).stdout
    assert len(re.findall(rf"^\d+ {client.folder}/", shown, re.MULTILINE)) == 1, shown
