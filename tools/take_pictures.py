"""`python -m tools.take_pictures`: a real run on the local cluster, then its report and status as pictures.

Writes docs/pictures/report.png and docs/pictures/status.svg; takes half a minute and needs Chromium.
"""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

import hpc_elastic
from hpc_elastic.clock import SYSTEM_CLOCK
from hpc_elastic.status import snapshot
from tools import browser

ROOT: Final = Path(__file__).resolve().parents[1]
PICTURES: Final = ROOT / "docs" / "pictures"
_PREEMPTED_AFTER_S: Final = 3.0
_STATUS_AFTER_S: Final = 2.5
_WIDTH: Final = 110


def main() -> None:
    """Take both."""
    from rich.console import Console
    from rich.text import Text

    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="pictures-") as folder:
        run_dir = Path(folder) / "digits"
        script = ROOT / "tools" / "pictured_run.py"
        job = hpc_elastic.submit(script, nodes=3, cluster="local", run_id="digits", run_dir=run_dir)
        _await(run_dir, rounds=1)
        SYSTEM_CLOCK.sleep_s(_PREEMPTED_AFTER_S)
        job.preempt()
        _await(run_dir, rounds=2)
        SYSTEM_CLOCK.sleep_s(_STATUS_AFTER_S)
        status = _on_a_terminal("status", str(run_dir)).replace(folder, "/scratch")
        job.wait(120)
        page = Path(folder) / "run.html"
        _on_a_terminal("report", str(run_dir), "-o", str(page))
        page.write_text(page.read_text().replace(folder, "/scratch").replace(str(ROOT), "/home/me"))
        browser.photograph(page, PICTURES / "report.png", height=1240)
    console = Console(record=True, width=_WIDTH, file=open(os.devnull, "w"))  # noqa: SIM115 - as long as the console
    console.print(Text.from_ansi("$ hpc-elastic status digits\n" + status))
    console.save_svg(str(PICTURES / "status.svg"), title="hpc-elastic status")


def _await(run_dir: Path, *, rounds: int) -> None:
    while sum(one.has_started for one in snapshot.read(run_dir).rounds) < rounds:
        SYSTEM_CLOCK.sleep_s(0.1)


def _on_a_terminal(*words: str) -> str:
    """What a command shows where it finds a terminal: colours and all."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "hpc_elastic", *words]
    env = {**os.environ, "COLUMNS": str(_WIDTH), "TERM": "xterm-256color", "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, stdout=theirs, env=env) as process:
        os.close(theirs)
        shown = b""
        try:
            while chunk := os.read(ours, 65536):
                shown += chunk
        except OSError:  # the other end of a terminal is closed
            pass
        os.close(ours)
    assert process.returncode == 0, shown
    return shown.decode().replace("\r\n", "\n")


if __name__ == "__main__":
    main()
