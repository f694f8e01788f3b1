"""What cannot be submitted ends with one line that names the value and the next move, and leaves nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

_ROOT: Final = Path(__file__).resolve().parents[3]
_PROGRAM: Final = """
import sys, threading
import hpc_elastic
from hpc_elastic.errors import UsageError

lock = threading.Lock()

def train():
    return 1

def locked():
    return lock

try:
    hpc_elastic.submit({call})
except UsageError as refused:
    print(f"hpc-elastic: {{refused}}", file=sys.stderr)
    sys.exit(int(refused.exit_code))
"""


def refused(folder: Path, *words: str) -> str:
    """The one line with which Python with these words ends; there is no sbatch, and nothing may be made."""
    (folder / "train.py").write_text("print('ran')")
    before = sorted(folder.rglob("*"))
    ended = subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env={"PATH": "/nowhere", "PYTHONPATH": str(_ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert ended.returncode == 64, ended.stderr
    assert ended.stdout == ""
    assert ended.stderr.count("\n") == 1, ended.stderr
    assert sorted(folder.rglob("*")) == before
    return ended.stderr


@pytest.mark.parametrize(
    ("call", "named", "next_move"),
    [
        ("train, nodes=0, cluster='local'", "nodes=0", "at least 1"),
        ("train, nodes='x', cluster='local'", "nodes='x'", 'give a number (4) or a range ("2:8")'),
        ("locked, nodes=1, cluster='local'", "'lock' used by locked", "create such objects"),
        ("train, lock, nodes=1, cluster='local'", "argument 1 of train", "create such objects"),
        ("train, nodes=1, cluster='slurm'", "cluster='slurm'", "run on this machine with cluster='local'"),
        (
            "train, nodes=1, cluster='local', run_dir='train.py'",
            "train.py is not a directory",
            "choose another",
        ),
    ],
)
def test_a_call_that_cannot_be_submitted_is_refused(
    tmp_path: Path, call: str, named: str, next_move: str
) -> None:
    line = refused(tmp_path, "-c", _PROGRAM.format(call=call))

    assert named in line
    assert next_move in line


@pytest.mark.parametrize(
    ("words", "named", "next_move"),
    [
        (["--nodes", "0", "train.py"], "nodes='0'", "at least 1"),
        (["--nodes", "x", "train.py"], "nodes='x'", "give a number"),
        (["--nodes", "4:2", "train.py"], "nodes='4:2'", 'write it as "2:4"'),
        (["--nodes", "1", "missing.py"], "missing.py does not exist", "give the path of a file"),
        (["--nodes", "1", "--cluster", "slurm", "train.py"], "sbatch is not on the PATH", "login node"),
        (["--nods", "1", "train.py"], "'--nods'", "did you mean --nodes?"),
        (["--nodes", "1"], "no script given", "usage: hpc-elastic submit"),
    ],
)
def test_a_command_line_that_cannot_be_submitted_is_refused(
    tmp_path: Path, words: list[str], named: str, next_move: str
) -> None:
    line = refused(tmp_path, "-m", "hpc_elastic", "submit", *words)

    assert named in line
    assert next_move in line
