"""Jobs of higher priority that keep what they take until a test has seen what it waits for."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from hpc_elastic.testing.sandbox.sandbox import Sandbox

_LONGEST_S: Final = 900


@contextmanager
def nodes_taken(sandbox: Sandbox, *jobs: str) -> Iterator[None]:
    """The nodes of running jobs are taken from them at the same moment, and free again after the block."""
    takers = [sandbox.preempt(job, seconds=_LONGEST_S) for job in jobs]
    try:
        yield
    finally:
        _cancel(sandbox, takers)


def _cancel(sandbox: Sandbox, takers: Sequence[str]) -> None:
    """As who submitted them: root, where the jobs that they take from are another user's."""
    subprocess.run(["scancel", *takers], env=sandbox.environment(), check=True, timeout=120)
