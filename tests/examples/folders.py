"""The folders of `examples/`, and the commands that their READMEs tell people to type."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Final

from tests.examples.example_runs import ROOT

EXAMPLES: Final = ROOT / "examples"
NAMES: Final = sorted(path.parent.name for path in EXAMPLES.glob("*/README.md"))


def commands(name: str) -> list[str]:
    """The lines of the one console block of a README, as they are typed."""
    (block,) = re.findall(r"```console\n(.*?)```", (EXAMPLES / name / "README.md").read_text(), re.DOTALL)
    return [line.removeprefix("$ ") for line in block.splitlines()]


def command(name: str, program: str) -> str:
    """The line that starts with `program`."""
    (line,) = (line for line in commands(name) if line.startswith(f"{program} "))
    return line


def like_a_clone(folder: Path) -> Path:
    """Lets `folder` look like the top of a clone in which one may write."""
    for name in ("examples", "sbatch"):
        (folder / name).symlink_to(ROOT / name)
    return folder


def surroundings() -> dict[str, str]:
    """The environment of a person who has installed the package."""
    return {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "HPC_ELASTIC_PYTHON": sys.executable,
        "OMP_NUM_THREADS": "1",
        "JAX_PLATFORMS": "cpu",
    }


def results(run_dir: Path) -> list[str]:
    """What rank 0 said at the end, without the number of steps."""
    told = "".join(path.read_text() for path in sorted(run_dir.glob("logs/*/*/0.out")))
    return re.findall(r"^done after \d+ steps(?:: (.*))?$", told, re.MULTILINE)


def steps(run_dir: Path, rank: int = 0) -> list[int]:
    """The steps that a rank has told, in order, over all attempts."""
    paths = sorted(
        run_dir.glob(f"logs/*/*/{rank}.out"), key=lambda path: (int(path.parts[-3]), int(path.parts[-2]))
    )
    told = "".join(path.read_text() for path in paths)
    return [int(step) for step in re.findall(r"^step (\d+)\b", told, re.MULTILINE)]


def samples(run_dir: Path) -> list[int]:
    """The numbers of all samples that any rank has trained on."""
    told = "".join(path.read_text() for path in run_dir.glob("logs/*/*/*.out"))
    found = re.findall(r"^step \d+ samples \[([^\]]*)\]", told, re.MULTILINE)
    return [int(number) for batch in found for number in batch.split(", ")]
