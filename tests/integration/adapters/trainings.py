"""Small trainings with the real libraries, in processes of their own: importing one takes seconds."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.examples.example_runs import run


def told_by(program: str, folder: Path) -> list[str]:
    """The lines that a Python program printed, which ended well."""
    script = folder / "program.py"
    script.write_text(program)
    ended = run([sys.executable, script], folder, JAX_PLATFORMS="cpu")
    assert ended.returncode == 0, ended.stdout
    return ended.stdout.splitlines()
