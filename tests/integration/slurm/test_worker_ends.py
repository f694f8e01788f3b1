"""How worker ends look from outside under Slurm: the status of the step and of the job, as documented."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Final

import pytest

from hpc_elastic.testing.sandbox.options import SandboxOptions
from tests.integration.agent.test_ways_to_end import SCRIPTS, rows
from tests.integration.slurm.bench import ENDED, Bench, a_sandbox

pytestmark = [pytest.mark.needs_slurm, pytest.mark.timeout(900)]

# One step for each way to end, in one job; each is a run of its own.
STEPS: Final = """#!/bin/bash
cd {folder}
for script in ways/*.py; do
    srun -N 1 -n 1 --output "${{script##*/}}.log" {python} -m hpc_elastic run \\
        --run-dir "runs/$script" --max-restarts 0 "$script"
    echo "$script $?"
done
"""
JOBS: Final = ("exit 0", "exit 42", "exit 83", "SIGSEGV")


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    with a_sandbox(SandboxOptions(nodes=4)) as sandbox:
        made = Bench(sandbox, sandbox.user_directory())
        (made.folder / "ways").mkdir()
        for number, text in enumerate(SCRIPTS.values()):
            (made.folder / "ways" / f"{number}.py").write_text(text)
        yield made


def slurms(way: str) -> tuple[str, str]:
    """The state and the exit code that the page has for a way to end."""
    state, code = rows("the worker")[way][1].split()
    return state, code


def test_each_way_to_end_is_the_status_of_its_step(bench: Bench) -> None:
    batch = bench.folder / "steps.sh"
    batch.write_text(STEPS.format(folder=bench.folder, python=sys.executable))

    job = bench.sandbox.sbatch("-N", "1", batch, cwd=bench.folder, env=bench.variables)
    bench.sandbox.wait_for_state(job, ENDED, timeout_s=300.0)

    lines = [line for line in bench.output(job).splitlines() if line.startswith("ways/")]
    found = dict(line.split() for line in lines)
    wanted = {f"ways/{number}.py": slurms(way)[1] for number, way in enumerate(SCRIPTS)}
    assert {script: f"{status}:0" for script, status in found.items()} == wanted
    for number, way in enumerate(SCRIPTS):
        cause = rows("the worker")[way][-1]
        told = (bench.folder / f"{number}.py.log").read_text()
        assert f"rank 0 failed: {cause}" in told if cause else "failed" not in told


def test_a_way_to_end_is_the_status_of_its_job(bench: Bench) -> None:
    scripts = {way: f"ways/{list(SCRIPTS).index(way)}.py" for way in JOBS}
    jobs = {
        way: bench.submit("-N", "1", words=("--max-restarts", "0", script)) for way, script in scripts.items()
    }

    ends = {way: bench.end_of(job, timeout_s=180.0) for way, job in jobs.items()}

    assert {way: (state, code) for way, (state, code, _) in ends.items()} == {
        way: slurms(way) for way in JOBS
    }
