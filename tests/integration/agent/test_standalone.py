"""One node without any job: a run by hand, and the same run by hand again."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

_ROOT: Final = Path(__file__).resolve().parents[3]


def run(folder: Path, *words: str, home: str = "") -> tuple[int, str]:
    """Status and console of `hpc-elastic run` in `folder`."""
    env = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(_ROOT),
        **({"HPC_ELASTIC_HOME": home} if home else {}),
    }
    ended = subprocess.run(
        [sys.executable, "-m", "hpc_elastic", "run", *words],
        cwd=folder,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=180,
        check=False,
    )
    return ended.returncode, ended.stdout


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text(
        "import os, sys\nprint('rank', os.environ['RANK'], 'of', os.environ['WORLD_SIZE'], sys.argv[1:])\n"
    )
    return tmp_path


def test_two_workers_run_without_any_job(folder: Path) -> None:
    status, console = run(folder, "--standalone", "--nproc_per_node=2", "train.py", "--lr", "0.1")

    assert status == 0, console
    assert "rank 0 of 2 ['--lr', '0.1']" in console
    made = list((folder / "hpc_elastic_runs").iterdir())
    assert len(made) == 1
    assert made[0].name.startswith("local-")
    assert (made[0] / "logs" / "1" / "1" / "1.out").read_text() == "rank 1 of 2 ['--lr', '0.1']\n"


def test_runs_are_kept_where_the_environment_says(folder: Path) -> None:
    status, _ = run(folder, "--rdzv-id", "mine", "train.py", home=str(folder / "home"))

    assert status == 0
    assert (folder / "home" / "mine" / "run.json").exists()


def test_a_finished_run_is_not_run_again(folder: Path) -> None:
    assert run(folder, "--rdzv-id", "mine", "train.py")[0] == 0

    status, console = run(folder, "--rdzv-id", "mine", "train.py")

    assert status == 0
    assert "the run is done already" in console
    assert "for a new run take another --run-dir" in console
    assert "rank 0" not in console


def test_a_failed_run_starts_a_new_attempt(folder: Path) -> None:
    failing = "import os, sys; sys.exit(3 if os.environ['HPC_ELASTIC_ATTEMPT'] == '1' else 0)"
    (folder / "train.py").write_text(failing)
    assert run(folder, "--rdzv-id", "mine", "--max-restarts", "0", "train.py")[0] == 3

    status, console = run(folder, "--rdzv-id", "mine", "--max-restarts", "0", "train.py")

    assert status == 0, console
    assert "attempt 2" in console


def test_a_program_that_is_not_python_is_a_worker_too(folder: Path) -> None:
    status, console = run(folder, "--max-restarts", "0", "--no-python", "sh", "-c", "echo rank $RANK; exit 7")

    assert status == 7
    assert "rank 0" in console


def test_a_module_is_run_as_python_would(folder: Path) -> None:
    (folder / "package").mkdir()
    (folder / "package" / "train.py").write_text("print('name', __name__, __package__)")

    status, console = run(folder, "-m", "package.train")

    assert status == 0
    assert "name __main__ package" in console


def test_closed_standard_streams_do_not_become_other_files(folder: Path) -> None:
    words = [sys.executable, "-m", "hpc_elastic", "run", "--standalone", "--run-dir", "r", "train.py"]

    ended = subprocess.run(
        ["sh", "-c", '"$@" <&- >&- 2>&-', "sh", *words],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(_ROOT)},
        timeout=180,
        check=False,
    )

    assert ended.returncode == 0
    assert (folder / "r" / "logs" / "1" / "1" / "0.out").read_text().startswith("rank 0 of 1")
    strayed = [p for p in (folder / "r").rglob("*") if p.is_file() and b"hpc-elastic [" in p.read_bytes()]
    assert strayed == []
