"""What a sandbox has running, and the proof that it has nothing."""

from __future__ import annotations

from hpc_elastic.testing.sandbox import evidence
from hpc_elastic.testing.sandbox.layout import Layout

OUTLIVES_ITS_JOB = "setsid sleep 600 >/dev/null 2>&1 &"


def assert_nothing_left(box: Layout) -> None:
    assert not evidence.of_sandbox(box)
    assert not box.directory.exists()


def commands_of(box: Layout, program: str) -> set[int]:
    return {seen.id.pid for seen in evidence.of_sandbox(box) if seen.name == program}
