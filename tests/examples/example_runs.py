"""Examples as a person runs them: in processes, through real agents, read from what they leave behind."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
NUMPY: Final = ROOT / "examples" / "digits_numpy.py"
DDP: Final = ROOT / "examples" / "torch_ddp" / "digits_ddp.py"
TIMEOUT_S: Final = 300.0


def environment(**extra: str) -> dict[str, str]:
    """The environment of a person outside Slurm who has installed the package."""
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("SLURM_", "HPC_ELASTIC_"))
    }
    packages = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    own = {"PYTHONPATH": packages, "HPC_ELASTIC_PYTHON": sys.executable, "OMP_NUM_THREADS": "1"}
    return {**kept, **own, **extra}


def agent_command(run_dir: Path, *arguments: str | Path) -> list[str]:
    """`hpc-elastic run` on `run_dir`, with further options, the script and its own."""
    command = [sys.executable, "-m", "hpc_elastic", "run", "--run-dir", run_dir, *arguments]
    return [str(word) for word in command]


def run(command: Sequence[str | Path], cwd: Path, **extra: str) -> subprocess.CompletedProcess[str]:
    """Run to the end; standard output and standard error come back as one text."""
    return subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env=environment(**extra),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


@contextmanager
def started(
    command: Sequence[str], console: Path, extra: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """A running command whose output goes to `console`; killed if the test leaves while it runs."""
    with console.open("wb") as out:
        process = subprocess.Popen(
            command,
            cwd=console.parent,
            env=environment(**(extra or {})),
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(TIMEOUT_S)


def accuracy_in(text: str) -> float:
    """The test accuracy that an example printed at its end."""
    found = re.findall(r"done after \d+ steps: test accuracy ([0-9.]+)", text)
    assert len(found) == 1, f"expected one accuracy, found {found} in:\n{text}"
    return float(found[0])


@dataclass(frozen=True)
class RankLogs:
    """Standard output of the ranks of a run: `logs/<attempt>/<round>/<rank>.out`."""

    run_dir: Path

    def rounds(self) -> list[tuple[int, int]]:
        """(attempt, round) of every round whose workers were started, in order."""
        folders = self.run_dir.glob("logs/*/*")
        return sorted((int(folder.parent.name), int(folder.name)) for folder in folders)

    def text(self, rank: int) -> str:
        """All that one rank has printed, over all attempts and rounds, in order."""
        paths = [
            self.run_dir / "logs" / str(attempt) / str(number) / f"{rank}.out"
            for attempt, number in self.rounds()
        ]
        return "".join(path.read_text() for path in paths if path.exists())

    def steps(self, rank: int) -> list[int]:
        """The steps that one rank has made, in order (with `--print-every 1`)."""
        return [int(step) for step in re.findall(r"^step (\d+) loss", self.text(rank), re.MULTILINE)]

    def starts(self, rank: int) -> list[int]:
        """The step at which one rank started, once for each round."""
        found = re.findall(r"^rank \d+ of \d+ starts at step (\d+)", self.text(rank), re.MULTILINE)
        return [int(step) for step in found]
