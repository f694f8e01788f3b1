"""A process that is killed while it saves leaves the checkpoint before it as it was."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from hpc_elastic.checkpoints import Checkpoints

ROOT = Path(__file__).resolve().parents[3]


def save(directory: Path, step: int) -> None:
    Checkpoints(directory).save(step, lambda folder: (folder / "part-0.txt").write_text(f"after {step}"))


def test_a_process_killed_while_saving_does_not_spoil_what_stands(tmp_path: Path) -> None:
    save(tmp_path, 1)
    source = (
        "import os, signal, sys\n"
        "from hpc_elastic.checkpoints import Checkpoints\n"
        "def write(folder):\n"
        "    (folder / 'part-0.txt').write_text('half')\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "Checkpoints(sys.argv[1]).save(2, write)\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", source, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
        timeout=120,
    )
    assert ended.returncode == -signal.SIGKILL
    assert (latest := Checkpoints(tmp_path).latest()) is not None
    assert latest.step == 1

    save(tmp_path, 2)  # the next life of the same rank
    assert (latest := Checkpoints(tmp_path).latest()) is not None
    assert latest.step == 2
    assert [path.name for path in latest.path.iterdir() if path.name.startswith(".saving")] == []
