"""Bad input ends with one line that names the value and the next move, and leaves nothing."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

import pytest

_ROOT: Final = Path(__file__).resolve().parents[3]


def run(folder: Path, *words: str, user: int | None = None) -> subprocess.CompletedProcess[str]:
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(_ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [sys.executable, "-m", "hpc_elastic", "run", *words],
        cwd=folder,
        env=env,
        user=user,
        group=user,
        extra_groups=None if user is None else [],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def refused(folder: Path, *words: str, user: int | None = None) -> str:
    """The one line with which these words are refused; nothing may have changed in `folder`."""
    before = sorted(folder.rglob("*"))
    ended = run(folder, *words, user=user)
    assert ended.returncode == 64, ended.stderr
    assert ended.stdout == ""
    assert ended.stderr.count("\n") == 1
    assert ended.stderr.startswith("hpc-elastic: ")
    assert sorted(folder.rglob("*")) == before
    return ended.stderr


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text("print('ran')")
    return tmp_path


@pytest.mark.parametrize(
    ("words", "named", "next_move"),
    [
        (["missing.py"], "missing.py", "give a Python file, -m with a module, or --no-python"),
        (["python", "train.py"], "python", "leave python out"),
        (["--no-python", "./missing"], "--no-python ./missing", "give its path"),
        (["--no-python", "no-such-program"], "--no-python no-such-program", "give its path"),
        (["--no-python", "train.py"], "--no-python train.py: no such program", "leave --no-python out"),
        (["--nnodes", "4:2", "train.py"], "4:2", "write 2:4"),
        (["--nnodes", "0", "train.py"], "--nnodes 0", "at least 1"),
        (["--nnode", "2", "train.py"], "'--nnode'", "did you mean --nnodes?"),
        (
            ["--run-dir", "train.py", "train.py"],
            "train.py is not a directory",
            "choose another with --run-dir",
        ),
        (["--run-dir", "train.py/run", "train.py"], "is not a directory", "choose another with --run-dir"),
        (["-m", "nosuchmodule"], "-m nosuchmodule", "install it"),
        (["-m", "json.nosuch"], "-m json.nosuch", "give its name"),
        (["-m", "train.nosuch"], "-m train.nosuch", "give its name"),
        (["--node-rank", "-3", "train.py"], "--node-rank -3", "expected 0 or more"),
        (["--master-addr", "a b", "train.py"], "--master-addr 'a b'", "expected one host name or address"),
        (["--rdzv-conf", "heartbeat=1e-300", "train.py"], "heartbeat=1e-300", "0.01 seconds or more"),
        (["--role", "", "train.py"], "--role ''", "expected a name"),
        (["--role", "a\nb", "train.py"], r"--role 'a\nb'", "expected a name"),
        (["--log-dir", "train.py", "train.py"], "is no directory that you may write to", "choose another"),
        (["--tee", "9", "train.py"], "'9'", "give 0 (none), 1 (stdout)"),
        ([], "no script given", "usage: hpc-elastic run"),
    ],
)
def test_a_bad_command_line_is_refused(folder: Path, words: list[str], named: str, next_move: str) -> None:
    line = refused(folder, *words)

    assert named in line
    assert next_move in line


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize(("mode", "fault"), [(0o755, "is not writable"), (0o700, "no access to")])
def test_a_run_directory_that_cannot_be_written_is_refused(mode: int, fault: str) -> None:
    # Not in tmp_path: its parents are closed to other users.
    with tempfile.TemporaryDirectory() as name:
        open_to_all = Path(name)
        open_to_all.chmod(0o755)
        (open_to_all / "train.py").write_text("print('ran')")
        home = open_to_all / "home"
        home.mkdir(mode=mode)

        line = refused(open_to_all, "--run-dir", "home/run", "train.py", user=65534)

    assert fault in line
    assert str(home) in line
    assert "choose another with --run-dir" in line


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_script_that_cannot_be_read_is_refused() -> None:
    with tempfile.TemporaryDirectory() as name:
        open_to_all = Path(name)
        open_to_all.chmod(0o777)
        (open_to_all / "train.py").write_text("print('ran')")
        (open_to_all / "train.py").chmod(0o600)

        line = refused(open_to_all, "train.py", user=65534)

    assert "script train.py cannot be read by you" in line
