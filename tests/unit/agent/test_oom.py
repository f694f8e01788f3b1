"""What is said of workers after the kernel's out-of-memory killer was there."""

from __future__ import annotations

from typing import Final

import pytest

from hpc_elastic.agent.oom import Kills, explained, victims

LIMIT: Final = 64 << 20
OF_SIGKILL: Final = "killed by SIGKILL (signal 9)"
LOADER_DIED: Final = "RuntimeError: DataLoader worker (pid 9) is killed by signal: Killed"
BY_KERNEL: Final = "killed by the kernel's out-of-memory killer"


@pytest.mark.parametrize("returncode", [-9, 137])
@pytest.mark.parametrize("kills", [Kills(1, frozenset(), LIMIT), Kills(0, frozenset({7}), LIMIT)])
def test_a_worker_killed_for_want_of_memory_is_said_to_be_so_with_the_limit(
    returncode: int, kills: Kills
) -> None:
    said = explained(OF_SIGKILL, returncode, 7, kills)

    assert said.startswith(f"{BY_KERNEL} (limit 64 MiB); ask for more (`--mem`")


@pytest.mark.parametrize(
    ("limit_bytes", "said"),
    [
        (3 << 30, "limit 3 GiB"),
        (1536 << 20, "limit 1.5 GiB"),
        (None, "no limit, so the memory of the machine"),
    ],
)
def test_the_limit_is_said_in_units_of_people(limit_bytes: int | None, said: str) -> None:
    assert f"({said}" in explained(OF_SIGKILL, -9, 7, Kills(1, frozenset(), limit_bytes))


def test_a_kill_without_a_trace_of_the_kernel_is_somebody_elses() -> None:
    assert explained(OF_SIGKILL, -9, 7, Kills(0, frozenset({8}), LIMIT)) == OF_SIGKILL


def test_a_failure_after_a_helper_was_killed_says_what_came_before_it() -> None:
    said = explained(LOADER_DIED, 1, 7, Kills(2, frozenset({9, 10}), LIMIT))

    assert said.startswith(
        f"{LOADER_DIED}; before it the kernel's out-of-memory killer ended 2 processes of this"
    )


def test_the_kernels_log_names_the_victims_of_our_time() -> None:
    records = [
        b"3,700,50000000,-;Out of memory: Killed process 41 (old) total-vm:1kB",
        b"",
        b"6,801,90000000,-;oom-kill:constraint=CONSTRAINT_MEMCG,task=python,pid=42,uid=0",
        b"3,802,100000000,-,caller=T5;Memory cgroup out of memory: Killed process 42 (python) anon-rss:8kB\n",
        b"3,803,100000001,-;oom_reaper: reaped process 42 (python)",
    ]

    assert victims(records, since_s=99.0) == {42}
