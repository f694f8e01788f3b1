"""A node's workers are counted, and given threads, by what the agent may use of its machine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest

from tests.integration.agent.agents import Agents, agents_in

_ASKS: Final = """
import os
print(os.environ["OMP_NUM_THREADS"], *sorted(os.sched_getaffinity(0)))
"""
_GROUPS: Final = Path("/sys/fs/cgroup")
_ONE: Final = str(min(os.sched_getaffinity(0)))


@pytest.fixture
def agents(tmp_path: Path) -> Iterator[Agents]:
    with agents_in(tmp_path) as agents:
        yield agents


@pytest.fixture
def limited(request: pytest.FixtureRequest) -> Iterator[Path]:
    """A control group of this machine with the given files, where one may be made."""
    controller, files = request.param
    group = _GROUPS / controller / f"hpc_elastic-{os.getpid()}"
    try:
        group.mkdir()
    except OSError as refused:
        pytest.skip(f"no {controller} group can be made here: {refused}")
    try:
        for name, content in files.items():
            (group / name).write_text(content)
        yield group
    finally:
        with suppress(OSError):
            group.rmdir()


def answers(agents: Agents) -> list[list[int]]:
    """What the workers of a run that is over said: threads, and the CPUs that they may use."""
    assert agents.statuses() == {"n0": 0}, agents.console("n0")
    count = len(list(agents.run_dir.glob("logs/1/1/*.out")))
    return [[int(word) for word in agents.output(rank, 1)[0].split()] for rank in range(count)]


def test_under_a_mask_of_one_cpu_there_is_one_worker_with_one_thread(agents: Agents) -> None:
    agents.start(0, "--nproc-per-node", "cpu", agents.script(_ASKS), inside=["taskset", "-c", _ONE])

    assert answers(agents) == [[1, int(_ONE)]]


@pytest.mark.parametrize(
    "limited",
    [
        ("cpu", {"cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "100000"}),
        ("cpuset", {"cpuset.mems": "0", "cpuset.cpus": _ONE}),
    ],
    indirect=True,
    ids=["quota", "cpuset"],
)
def test_under_a_group_limit_of_one_cpu_there_is_one_worker_with_one_thread(
    agents: Agents, limited: Path
) -> None:
    join = ["sh", "-c", f'echo $$ > {limited}/cgroup.procs && exec "$@"', "sh"]
    agents.start(0, "--nproc-per-node", "cpu", agents.script(_ASKS), inside=join)

    assert [threads for threads, *_ in answers(agents)] == [1]


def test_a_job_of_one_cpu_on_a_machine_that_does_not_bind_it_has_one_worker(agents: Agents) -> None:
    agents.start(0, "--nproc-per-node", "cpu", agents.script(_ASKS), environment={"SLURM_CPUS_ON_NODE": "1"})

    assert [threads for threads, *_ in answers(agents)] == [1]


def test_one_worker_has_a_thread_for_each_cpu_and_the_users_own_number_stays(agents: Agents) -> None:
    script = agents.script(_ASKS)
    agents.start(0, script, environment={"OMP_NUM_THREADS": "7"})

    assert [threads for threads, *_ in answers(agents)] == [7]


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="takes two CPUs")
def test_workers_that_split_the_cpus_run_on_shares_of_their_own(agents: Agents) -> None:
    agents.start(0, "--nproc-per-node", "2", "--numa-binding", "exclusive", agents.script(_ASKS))

    (threads, *one), (_, *other) = answers(agents)
    assert len(one) == len(other) == max(1, len(os.sched_getaffinity(0)) // 2)
    assert not set(one) & set(other)
    assert threads <= len(one)


def test_workers_that_split_one_cpu_share_it(agents: Agents) -> None:
    agents.start(
        0,
        *("--nproc-per-node", "2", "--numa-binding", "exclusive"),
        agents.script(_ASKS),
        inside=["taskset", "-c", _ONE],
    )

    assert answers(agents) == [[1, int(_ONE)]] * 2
