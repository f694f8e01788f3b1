"""What several modules share: a Slurm of their own whose preemption leaves half a minute, and its bench."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hpc_elastic.testing.sandbox.options import SandboxOptions
from hpc_elastic.testing.sandbox.sandbox import Sandbox
from tests.integration.slurm.bench import Bench, a_sandbox
from tests.waiting import wait_until


@pytest.fixture(scope="module")
def cluster() -> Iterator[Sandbox]:
    with a_sandbox(SandboxOptions(grace_s=30, kill_wait_s=30)) as sandbox:
        yield sandbox


@pytest.fixture
def bench(cluster: Sandbox) -> Iterator[Bench]:
    """Afterwards nothing is left in the queue."""
    yield Bench(cluster, cluster.user_directory())
    cluster.run(["scancel", f"--user={cluster.user.name}"])
    wait_until(lambda: not cluster.run(["squeue", "-h"]).stdout.strip(), 120.0, "the queue is empty")
