"""How long a launcher takes until the worker's first line, and how much memory it needs: ours and torchrun's.

    python -m benchmarks.startup [--repetitions 5] [--write]

The two are started in turns, so that a busy moment of the machine meets both. Ends with status 1 when
a goal is missed: at most a tenth of torchrun's time (where torch is installed) and at most 45 MiB.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any, Final

from benchmarks import measured

TIME_RATIO_GOAL: Final = 0.1
MEMORY_GOAL_MIB: Final = 45.0
_PATIENCE_S: Final = 120.0

# CLOCK_MONOTONIC is one clock for all processes of a machine: the worker's reading and ours compare.
# It stays until the launcher's memory has been read.
_WORKER: Final = """
import pathlib, sys, time
print("first line at", time.monotonic(), flush=True)
go_on = pathlib.Path(sys.argv[1])
while not go_on.exists():
    time.sleep(0.01)
"""


@dataclass(frozen=True)
class Start:
    """One start: `shown_s` until its first line came out of the launcher, `reached_s` until it was said."""

    shown_s: float
    reached_s: float
    peak_mib: float


@dataclass(frozen=True)
class Summary:
    """The medians of one launcher, and the starts they came from."""

    launcher: str
    shown_s: float
    reached_s: float
    peak_mib: float
    starts: tuple[Start, ...]


def our_command(script: Path, go_on: Path, scratch: Path) -> list[str]:
    command = [sys.executable, "-m", "hpc_elastic", "run", "--standalone", "--run-dir", str(scratch / "run")]
    return [*command, "--nproc-per-node", "1", str(script), str(go_on)]


def torchrun_command(script: Path, go_on: Path, scratch: Path) -> list[str]:
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--log-dir",
        str(scratch / "logs"),
    ]
    return [*command, "--nproc-per-node", "1", str(script), str(go_on)]


LAUNCHERS: Final = {"hpc-elastic": our_command, "torchrun": torchrun_command}


def measure_start(launcher: str) -> Start:
    """Start a worker of one rank through `launcher`, wait for its first line, and end it."""
    with tempfile.TemporaryDirectory(prefix="startup-") as directory:
        scratch = Path(directory)
        script, go_on = scratch / "worker.py", scratch / "go-on"
        script.write_text(_WORKER)
        command = LAUNCHERS[launcher](script, go_on, scratch)
        environment = {**os.environ, "PYTHONPATH": str(measured.ROOT), "OMP_NUM_THREADS": "1"}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package comes compiled
        began_s = time.monotonic()
        with subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment,
            cwd=scratch,
        ) as process:
            overdue = threading.Timer(_PATIENCE_S, process.kill)
            overdue.start()
            try:
                said_s, shown_s = _first_line(process, command)
                peak_mib = _peak_mib(process.pid)
                go_on.touch()
                while process.poll() is None:  # leaving may import more than starting did
                    peak_mib = max(peak_mib, _peak_mib(process.pid))
                    time.sleep(0.002)
            finally:
                overdue.cancel()
        if process.returncode != 0:
            raise RuntimeError(f"{' '.join(command)} ended with status {process.returncode}")
        return Start(round(shown_s - began_s, 4), round(said_s - began_s, 4), round(peak_mib, 1))


def _first_line(process: subprocess.Popen[str], command: Sequence[str]) -> tuple[float, float]:
    assert process.stdout is not None
    for line in process.stdout:
        _, found, said_s = line.partition("first line at ")
        if found:
            return float(said_s), time.monotonic()
    raise RuntimeError(f"{' '.join(command)} showed no line of its worker")


def _peak_mib(pid: int) -> float:
    """The most memory that a process of ours has held so far; 0 when it has just ended."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    return 0.0


def measure(repetitions: int) -> list[Summary]:
    """Interleaved starts of every launcher that is installed. The first of each warms the file cache up."""
    launchers = [name for name in LAUNCHERS if name != "torchrun" or find_spec("torch")]
    starts: dict[str, list[Start]] = {name: [] for name in launchers}
    for repetition in range(repetitions + 1):
        for name in launchers:
            start = measure_start(name)
            if repetition > 0:
                starts[name].append(start)
    return [_summary(name, found) for name, found in starts.items()]


def _summary(launcher: str, starts: Sequence[Start]) -> Summary:
    return Summary(
        launcher=launcher,
        shown_s=median(start.shown_s for start in starts),
        reached_s=median(start.reached_s for start in starts),
        peak_mib=median(start.peak_mib for start in starts),
        starts=tuple(starts),
    )


def time_ratio(mine: Summary, other: Summary) -> float:
    """Our time in theirs, each at its best: what else the machine does only ever adds to a start."""
    return min(start.shown_s for start in mine.starts) / min(start.shown_s for start in other.starts)


def missed_goals(summaries: Sequence[Summary]) -> list[str]:
    """One sentence for each goal that is missed."""
    mine, *others = summaries
    missed = []
    if max(start.peak_mib for start in mine.starts) > MEMORY_GOAL_MIB:
        missed.append(f"peak memory {mine.peak_mib:.1f} MiB, goal {MEMORY_GOAL_MIB:g} MiB")
    for other in others:
        ratio = time_ratio(mine, other)
        if ratio > TIME_RATIO_GOAL:
            missed.append(f"{ratio:.3f} of the time of {other.launcher}, goal {TIME_RATIO_GOAL:g}")
    return missed


def as_json(summaries: Sequence[Summary], missed: Sequence[str]) -> dict[str, Any]:
    mine, *others = summaries
    return {
        "what": "seconds from starting the launcher to the first line of its one worker; peak memory of it",
        "goals": {"time_ratio": TIME_RATIO_GOAL, "peak_mib": MEMORY_GOAL_MIB},
        "missed": list(missed),
        "time_ratio": {other.launcher: round(time_ratio(mine, other), 4) for other in others},
        "launchers": [asdict(summary) for summary in summaries],
    }


def main() -> int:
    parser = argparse.ArgumentParser(description="start-up time and peak memory, beside torchrun's")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--write", action="store_true", help="keep the result in docs/measured/startup.json")
    options = parser.parse_args()

    summaries = measure(options.repetitions)
    for one in summaries:
        print(f"{one.launcher:12} {one.shown_s:6.3f} s to the first line  {one.peak_mib:6.1f} MiB at peak")
    for other in summaries[1:]:
        print(f"{time_ratio(summaries[0], other):.3f} of the time of {other.launcher}")
    missed = missed_goals(summaries)
    for sentence in missed:
        print(f"goal missed: {sentence}")
    if options.write:
        print(f"written to {measured.write('startup', as_json(summaries, missed))}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
