"""How much of a core an agent needs to show what 16 ranks print, and whether every line arrives whole.

    python -m benchmarks.logs [--seconds 20] [--lines-per-s 10000] [--ranks 16] [--write]

The console is a pipe that this process reads, as `srun` reads its tasks. CPU is the agent's own, user and
system, from the first line to the last one; what its workers need is not counted.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from benchmarks import measured

# Prints LINES lines in SECONDS, evenly, each by itself as a training script does.
_WORKER: Final = """
import os, sys, time

seconds, lines = float(sys.argv[1]), int(sys.argv[2])
rank, filling = os.environ["RANK"], "x" * 40
began_s = time.monotonic()
for number in range(lines):
    ahead_s = began_s + seconds * number / lines - time.monotonic()
    if ahead_s > 0.01:
        time.sleep(ahead_s)
    stream = sys.stderr if number % 4 == 3 else sys.stdout
    print(f"rank {rank} says {number} {filling} end", file=stream, flush=True)
"""
_LINE: Final = re.compile(rb"\[[^ \]]+ (\d+)\] rank (\d+) says (\d+) x{40} end\n")
_OF_THE_AGENT: Final = b"hpc-elastic ["


@dataclass(frozen=True)
class Shown:
    """What one agent showed. `torn`: lines that are neither a worker's nor the agent's own."""

    ranks: int
    lines: int
    seconds: float
    lost: int
    torn: int
    disordered: int
    status: int
    agent_cpu_s: float

    @property
    def cores(self) -> float:
        """The share of one core that the agent needed."""
        return self.agent_cpu_s / self.seconds

    @property
    def is_complete(self) -> bool:
        """Whether every line came, whole, and in its order within its stream."""
        return (self.lost, self.torn, self.disordered, self.status) == (0, 0, 0, 0)


def measure(folder: Path, *, ranks: int, lines_per_s: int, seconds: float) -> Shown:
    """Let `ranks` workers print through one agent for a while, and read its console."""
    script = folder / "worker.py"
    script.write_text(_WORKER)
    lines = round(lines_per_s * seconds / ranks)
    options = ["--standalone", "--nproc-per-node", str(ranks), "--tee", "3", "--run-dir", str(folder / "run")]
    command = [sys.executable, "-m", "hpc_elastic", "run", *options, str(script), str(seconds), str(lines)]
    agent = subprocess.Popen(
        command,
        env={**os.environ, "PYTHONPATH": str(measured.ROOT)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    try:
        return _read(agent, ranks, lines)
    finally:
        agent.kill()
        agent.wait()


def _read(agent: subprocess.Popen[bytes], ranks: int, lines: int) -> Shown:
    assert agent.stdout is not None
    seen: Counter[tuple[int, bool]] = Counter()
    torn = disordered = 0
    began_s = ended_s = 0.0
    began_cpu_s = ended_cpu_s = 0.0
    for line in agent.stdout:
        match = _LINE.fullmatch(line)
        if match is None:
            torn += not line.startswith(_OF_THE_AGENT)
            continue
        if not seen:
            began_s, began_cpu_s = time.monotonic(), cpu_s(agent.pid)
        rank, number = int(match[2]), int(match[3])
        is_err = number % 4 == 3
        place = seen[rank, is_err]
        disordered += (
            number != (4 * place + 3 if is_err else place // 3 * 4 + place % 3) or match[1] != match[2]
        )
        seen[rank, is_err] += 1
        if seen.total() == ranks * lines:
            ended_s, ended_cpu_s = time.monotonic(), cpu_s(agent.pid)
    return Shown(
        ranks=ranks,
        lines=ranks * lines,
        seconds=round(ended_s - began_s, 3),
        lost=ranks * lines - seen.total(),
        torn=torn,
        disordered=disordered,
        status=agent.wait(),
        agent_cpu_s=round(ended_cpu_s - began_cpu_s, 3),
    )


def cpu_s(pid: int) -> float:
    """User and system time of a process itself, its children not counted; 0 for one that is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> int:
    """Measure, say it, and keep it where asked to; 1 where a line was lost or torn."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--lines-per-s", type=int, default=10_000)
    parser.add_argument("--ranks", type=int, default=16)
    parser.add_argument("--write", action="store_true", help="keep the result in docs/measured/logs.json")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        shown = measure(Path(folder), ranks=given.ranks, lines_per_s=given.lines_per_s, seconds=given.seconds)
    print(f"{shown}\n{shown.cores:.3f} of a core, {shown.lines / shown.seconds:.0f} lines/s")
    if given.write:
        measured.write("logs", {**asdict(shown), "cores": round(shown.cores, 4)})
    return 0 if shown.is_complete else 1


if __name__ == "__main__":
    sys.exit(main())
