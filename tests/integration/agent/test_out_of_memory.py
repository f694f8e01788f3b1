"""Workers that the kernel kills for want of memory, in a real control group with a limit."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest

from tests.integration.agent.agents import Agents, agents_in
from tests.integration.agent.test_ways_to_end import rows

LIMIT_BYTES: Final = 100 << 20
_VERSION_1: Final = Path("/sys/fs/cgroup/memory")
_VERSION_2: Final = Path("/sys/fs/cgroup")
EATS: Final = "eaten = [os.urandom(1 << 20) * 10 for _ in range(100)]"


@pytest.fixture
def agents(tmp_path: Path) -> Iterator[Agents]:
    with agents_in(tmp_path) as made:
        yield made


@pytest.fixture
def small_group(agents: Agents) -> Iterator[Path]:
    """A control group that may use little memory, where one may be made."""
    is_first = _VERSION_1.is_dir()
    group = (_VERSION_1 if is_first else _VERSION_2) / f"hpc_elastic-{os.getpid()}"
    try:
        group.mkdir()
        (group / ("memory.limit_in_bytes" if is_first else "memory.max")).write_text(str(LIMIT_BYTES))
    except OSError as refused:
        with suppress(OSError):
            group.rmdir()
        pytest.skip(f"no group with a memory limit can be made here: {refused}")
    try:
        yield group
    finally:
        with suppress(OSError):
            group.rmdir()


def inside(group: Path) -> list[str]:
    return ["sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$@"', "sh"]


def test_a_worker_that_is_killed_for_want_of_memory_ends_as_documented(
    agents: Agents, small_group: Path
) -> None:
    status, _, cause = rows("more than a script")["OOM"]
    script = agents.script(f"import os; {EATS}")

    name = agents.start(0, "--max-restarts", "0", script, inside=inside(small_group))

    assert agents.status(name) == int(status), agents.console(name)
    assert f"rank 0 failed: {cause}; ask for more (`--mem`" in agents.console(name)


def test_a_worker_that_fails_because_its_helper_was_killed_says_so(agents: Agents, small_group: Path) -> None:
    script = agents.script(
        "import multiprocessing, os\n"
        f"def eat():\n    {EATS}\n"
        "helper = multiprocessing.get_context('fork').Process(target=eat)\n"
        "helper.start(); helper.join()\n"
        "raise RuntimeError(f'the loader ended with {helper.exitcode}')\n"
    )

    name = agents.start(0, "--max-restarts", "0", script, inside=inside(small_group))

    assert agents.status(name) == 1, agents.console(name)
    told = (
        "RuntimeError: the loader ended with -9; before it the kernel's out-of-memory killer ended a process"
    )
    assert f"rank 0 failed: {told} of this node (limit 100 MiB)" in agents.console(name)
