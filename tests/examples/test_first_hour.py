"""The first hour of a new user: what the README and the page of the sandbox say is typed, line by line."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from hpc_elastic.testing.sandbox import Sandbox
from tests.examples import folders, pages
from tests.examples.example_runs import ROOT
from tests.examples.new_user import PATIENCE_S, STEPS, NewUser, a_new_user
from tests.integration.slurm.sandbox_traces import assert_nothing_left

pytestmark = pytest.mark.needs_slurm


@pytest.fixture
def user() -> Iterator[NewUser]:
    with a_new_user() as new:
        yield new


def test_the_quickstart_of_the_readme_works_line_by_line_for_a_new_user(user: NewUser) -> None:
    told, first = user.types_the_quickstart()
    record = user.sandbox.wait_for_state(user.job, "COMPLETED", timeout_s=PATIENCE_S)

    assert "Python" in told["hpc-elastic doctor"]
    assert str(user.folder / "envs") in told["hpc-elastic doctor"]
    assert "running on 4 nodes, 4 workers" in told["hpc-elastic status"]
    assert "the workers save and leave, and it is started again" in told["hpc-elastic preempt"]
    assert folders.steps(first) == folders.steps(first, rank=3) == [*range(STEPS)], "none lost, none twice"
    assert len(list(first.glob("logs/*"))) == 2, "it was requeued"
    assert "<svg" in (user.folder / "run.html").read_text()
    assert (record["Partition"], record["ExitCode"]) == ("low", "0:0")
    assert folders.steps(user.run_dir(), rank=7) == [*range(STEPS)], "four nodes of two workers"
    (local,) = (user.folder / "hpc_elastic_runs").glob("local-*")
    assert folders.steps(local) == [*range(STEPS)]


def test_the_page_of_the_sandbox_works_line_by_line() -> None:
    with tempfile.TemporaryDirectory(prefix="sbx-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        place = Path(folder) / "slurm"
        around = {**folders.surroundings(), "HPC_ELASTIC_SANDBOX": str(place)}
        told = []
        try:
            for line in pages.typed("docs/sandbox.md"):
                if "sandbox preempt" in line:
                    sandbox = Sandbox.open(place)
                    sandbox.wait_for_state(1, "RUNNING", timeout_s=PATIENCE_S)
                told.append(_as_root(line, around))
        finally:
            if place.exists():
                _as_root("hpc-elastic sandbox down", around)

    assert re.match(r"up in .* 4 idle nodes", told[0])
    assert "Submitted batch job 1\n" in told
    assert "node 2 is back\n" in told
    assert told[-1].startswith("down: ")
    assert_nothing_left(sandbox.layout)


def _as_root(line: str, around: dict[str, str]) -> str:
    ended = subprocess.run(
        ["bash", "-c", line],
        cwd=ROOT,
        env={**os.environ, **around},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert ended.returncode == 0, f"{line}\n{ended.stdout}{ended.stderr}"
    return ended.stdout
