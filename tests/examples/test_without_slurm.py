"""Without Slurm the template and the agent run the same script on this machine alone."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.examples.example_runs import NUMPY, ROOT, RankLogs, accuracy_in, agent_command, run


def test_the_batch_template_runs_one_local_node_outside_slurm(tmp_path: Path) -> None:
    bash = shutil.which("bash")
    assert bash is not None

    ended = run([bash, ROOT / "sbatch" / "elastic.sh", NUMPY], tmp_path)

    assert ended.returncode == 0, ended.stdout
    assert accuracy_in(ended.stdout) >= 0.90
    homes = list((tmp_path / "hpc_elastic_runs").iterdir())
    assert len(homes) == 1, "the run directory is below the directory it was started in"


def test_a_standalone_agent_runs_two_ranks(tmp_path: Path) -> None:
    ended = run(
        agent_command(tmp_path / "run", "--standalone", "--nproc-per-node", "2", NUMPY, "--print-every", "1"),
        tmp_path,
    )

    assert ended.returncode == 0, ended.stdout
    assert accuracy_in(ended.stdout) >= 0.90
    logs = RankLogs(tmp_path / "run")
    assert logs.steps(0) == logs.steps(1) == list(range(300))
