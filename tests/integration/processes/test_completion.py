"""The completion in a real bash."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
ASK = """
set -u
eval "$("$1" -m hpc_elastic completion bash)"
shift
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_hpc_elastic
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (("hpc-elastic", "st"), ["status"]),
        (("hpc-elastic", "logs", "--f"), ["--follow"]),
        (("hpc-elastic", "status", "hpc-7"), ["hpc-71", "hpc-72 with a blank"]),
        (("hpc-elastic", "status", "none"), [""]),
    ],
)
def test_bash_completes_commands_options_and_runs(
    words: tuple[str, ...], offered: list[str], tmp_path: Path
) -> None:
    for name in ("hpc-71", "hpc-72 with a blank", "other"):
        (tmp_path / name).mkdir()
    env = {**os.environ, "PYTHONPATH": str(ROOT), "HPC_ELASTIC_HOME": str(tmp_path)}

    shown = subprocess.run(
        ["bash", "-c", ASK, "bash", sys.executable, *words],
        env=env,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )

    assert sorted(shown.stdout.splitlines()) == offered
