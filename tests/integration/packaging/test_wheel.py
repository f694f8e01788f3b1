"""The built package has what it needs beside its modules."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def test_a_wheel_carries_the_job_template_and_the_type_marker(tmp_path: Path) -> None:
    options = ["--no-deps", "--no-build-isolation", "--wheel-dir", str(tmp_path)]
    build = [sys.executable, "-m", "pip", "wheel", *options, str(ROOT)]
    subprocess.run(build, check=True, capture_output=True, timeout=600)

    with zipfile.ZipFile(next(tmp_path.glob("hpc_elastic-*.whl"))) as wheel:
        names = set(wheel.namelist())
        template = wheel.read("hpc_elastic/submission/elastic.sh")

    assert template == (ROOT / "sbatch" / "elastic.sh").read_bytes()
    assert {"hpc_elastic/py.typed", "hpc_elastic/cli/main.py", "hpc_elastic/worker.py"} <= names
    assert not {name for name in names if name.startswith(("tests/", "tools/", "examples/"))}
