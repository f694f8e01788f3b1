"""Lines and programs of the pages about pools, other languages and migrating, on a real Slurm."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import pytest

from hpc_elastic.testing.sandbox import Sandbox
from tests.examples import folders, pages
from tests.integration.slurm.bench import ENDED, ROOT, Bench
from tests.waiting import wait_until

pytestmark = [pytest.mark.needs_slurm, pytest.mark.timeout(900)]

END_S: Final = 300.0
TRAIN: Final = 'import os\nprint("rank", os.environ["RANK"], "of", os.environ["WORLD_SIZE"], flush=True)\n'
# Trains until two more nodes are there.
ROOMY: Final = """
import time
from hpc_elastic import worker

ctx = worker.context()
print("world", ctx.world_size, flush=True)
step = 0
while ctx.world_size < 4:
    step += 1
    time.sleep(0.05)
    if ctx.should_stop(step):
        ctx.saved(step)
        ctx.leave()
"""
# What is the reader's in the programs that submit.
OWN: Final = """
import os
import hpc_elastic

def train(config):
    return f"rank {os.environ['RANK']} of {os.environ['WORLD_SIZE']} with {config}"

cfg = config = {"lr": 0.1}
"""
SUBMITTED: Final = {
    ("README.md", "import hpc_elastic"): "rank 0 of 4",
    ("docs/pools.md", "job = hpc_elastic.submit("): "rank 0 of ",
    ("docs/from-submitit.md", "# submitit"): "rank 0 of 4",
}


@pytest.fixture
def bench(slurm_sandbox: Sandbox, user_dir: Path) -> Bench:
    """A directory like the top of a clone, with scripts of its owner."""
    folders.like_a_clone(user_dir)
    (user_dir / "elastic.sh").symlink_to(ROOT / "sbatch" / "elastic.sh")
    written = {"train.py": TRAIN, "train": f"#!/bin/bash\n. {ROOT}/examples/bash/train.sh 0.01\n"}
    for name, text in written.items():
        (user_dir / name).write_text(text)
        (user_dir / name).chmod(0o755)
    return Bench(slurm_sandbox, user_dir)


def typed(bench: Bench, line: str) -> str:
    """What the user's shell prints for a line."""
    env = folders.surroundings()
    done = bench.sandbox.run(["bash", "-c", line], cwd=bench.folder, env=env, check=True, timeout_s=END_S)
    return done.stdout


def output(bench: Bench) -> str:
    return "\n".join(path.read_text() for path in sorted(bench.folder.glob("slurm-*.out")))


def ranks(bench: Bench, run: str) -> set[str]:
    """What the ranks of a run have printed, line by line."""
    logs = (bench.folder / "hpc_elastic_runs" / f"{bench.sandbox.cluster}-{run}" / "logs").glob("*/*/*.out")
    return {line for path in logs for line in path.read_text().splitlines()}


def test_lines_that_submit_train_as_the_pages_say(bench: Bench) -> None:
    (in_bash,) = pages.typed("docs/other-languages.md")
    (lightning,) = pages.typed("docs/from-lightning.md")
    of_torchrun, here = pages.block("docs/from-torchrun.md", "srun --ntasks").replace("\\\n", "").splitlines()
    assert " torchrun " in of_torchrun, "that is what the reader has"
    lines = [in_bash, lightning, f"sbatch -N 4 --wrap '{here}'"]

    jobs = [typed(bench, line).split()[-1] for line in lines]

    for job in jobs:
        record = bench.sandbox.wait_for_state(job, ENDED, timeout_s=END_S)
        assert record["ExitCode"] == "0:0", output(bench)
    counted = ranks(bench, jobs[0])
    assert {f"step {step} on rank {rank} of 2" for step in range(60) for rank in (0, 1)} <= counted
    for job in jobs[1:]:
        assert ranks(bench, job) == {f"rank {rank} of 32" for rank in range(32)}


def test_nodes_join_a_run_as_the_page_about_pools_says(bench: Bench) -> None:
    pool, join = pages.typed("docs/pools.md")
    array = typed(bench, pool).split()[-1]
    wait_until(lambda: "rank 0 of " in str(ranks(bench, array)), END_S, "the pool trains")
    bench.sandbox.run(["scancel", array])
    (bench.folder / "train.py").write_text(ROOMY)
    job = typed(bench, "sbatch -N 2 -c 2 elastic.sh --nnodes 2:4 train.py").split()[-1]
    wait_until(lambda: "world 2" in ranks(bench, job), END_S, "two nodes train")

    told = typed(bench, join.replace("4711", job).replace("spare", "low"))

    assert told.startswith("job ")
    record = bench.sandbox.wait_for_state(job, ENDED, timeout_s=END_S)
    assert (record["JobState"], record["ExitCode"]) == ("COMPLETED", "0:0"), output(bench)
    assert ranks(bench, job) == {"world 2", "world 4"}
    assert bench.sandbox.wait_for_state(told.split()[-1], ENDED, timeout_s=END_S)["ExitCode"] == "0:0"


def test_python_that_submits_gets_the_value_of_rank_0(bench: Bench) -> None:
    def run(number: int, page: str, first: str) -> str:
        """What a program with the page's code prints; what stands above `# hpc_elastic` the reader has."""
        before, _, code = pages.block(page, first).rpartition("# hpc_elastic\n")
        compile(before, page, "exec")
        code = code.replace('"preemptible"', '"low"').replace("nproc_per_node=8", "nproc_per_node=1")
        program = bench.folder / f"program_{number}.py"
        program.write_text(f"{OWN}\n{code}\nprint(job.result())\n")
        return typed(bench, f"python {program}")

    with ThreadPoolExecutor(len(SUBMITTED)) as threads:
        told = [threads.submit(run, number, *block) for number, block in enumerate(SUBMITTED)]

    for one, expected in zip(told, SUBMITTED.values(), strict=True):
        assert one.result().splitlines()[-1].startswith(expected)


def test_the_test_that_the_page_of_the_sandbox_shows_passes(slurm_sandbox: Sandbox, user_dir: Path) -> None:
    # However late the test looks, the job runs; and its second life is short.
    (user_dir / "job.sh").write_text('#!/bin/bash\n[ -n "$SLURM_RESTART_COUNT" ] || exec sleep 600\n')
    os.chown(user_dir / "job.sh", slurm_sandbox.user.uid, slurm_sandbox.user.gid)
    names: dict[str, Any] = {}
    exec(pages.block("docs/sandbox.md", "def test_my_job_survives"), names)  # noqa: S102 (that is the test)

    names["test_my_job_survives_a_preemption"](slurm_sandbox, user_dir)
