"""CPU limits of control groups, from the kernel's files as version 1, 2 and containers show them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from hpc_elastic.agent import cgroups


def process(folder: Path, groups: str, mounts: str, files: Mapping[str, str]) -> Path:
    """The folder of a process of which the kernel says this; `/sys` in `mounts` is below `folder`."""
    proc = folder / "proc"
    proc.mkdir()
    (proc / "cgroup").write_text(groups)
    (proc / "mountinfo").write_text(mounts.replace("/sys/fs", f"{folder}/sys/fs"))
    for name, content in files.items():
        path = folder / "sys/fs/cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{content}\n")
    return proc


V2 = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot\n"
V1 = """23 1 0:20 / /sys rw,nosuid - sysfs sysfs rw
31 23 0:28 / /sys/fs/cgroup ro - tmpfs tmpfs ro,mode=755
33 31 0:30 / /sys/fs/cgroup/cpuset rw shared:16 - cgroup cgroup rw,cpuset
34 31 0:31 / /sys/fs/cgroup/cpu,cpuacct rw shared:17 - cgroup cgroup rw,cpu,cpuacct
"""


@pytest.mark.parametrize(
    ("files", "quota"),
    [
        ({"slurm/job_7/step_0/cpu.max": "150000 100000"}, 1.5),
        ({"slurm/job_7/step_0/cpu.max": "max 100000"}, None),
        ({"slurm/job_7/cpu.max": "200000 100000", "slurm/job_7/step_0/cpu.max": "max 100000"}, 2.0),
        ({"slurm/job_7/cpu.max": "200000 100000", "slurm/job_7/step_0/cpu.max": "800000 100000"}, 2.0),
        ({"slurm/job_7/step_0/cpu.max": ""}, None),
        ({}, None),
    ],
)
def test_version_2_limits_by_the_group_and_those_around_it(
    files: dict[str, str], quota: float | None, tmp_path: Path
) -> None:
    proc = process(tmp_path, "0::/slurm/job_7/step_0\n", V2, files)

    assert cgroups.cpu_quota(proc) == quota


@pytest.mark.parametrize(("quota_us", "quota"), [("50000", 0.5), ("-1", None)])
def test_version_1_limits_by_quota_and_period(quota_us: str, quota: float | None, tmp_path: Path) -> None:
    groups = "9:name=systemd:/user\n4:cpu,cpuacct:/user/7\n3:cpuset:/other\n0::/user/7\n"
    files = {
        "cpu,cpuacct/user/7/cpu.cfs_quota_us": quota_us,
        "cpu,cpuacct/user/7/cpu.cfs_period_us": "100000",
        "cpu,cpuacct/user/cpu.cfs_quota_us": "-1",
        "cpu,cpuacct/user/cpu.cfs_period_us": "100000",
    }

    assert cgroups.cpu_quota(process(tmp_path, groups, V1, files)) == quota


def test_a_container_that_is_shown_its_own_group_alone_finds_its_limit(tmp_path: Path) -> None:
    mounts = V1.replace("0:31 /", "0:31 /docker/4f2")
    files = {"cpu,cpuacct/cpu.cfs_quota_us": "300000", "cpu,cpuacct/cpu.cfs_period_us": "100000"}

    assert cgroups.cpu_quota(process(tmp_path, "4:cpu,cpuacct:/docker/4f2\n", mounts, files)) == 3.0


def test_a_group_outside_of_what_is_shown_counts_by_what_is(tmp_path: Path) -> None:
    """A namespace shows the path of a process that was moved out of it as /../other."""
    proc = process(tmp_path, "0::/../other\n", V2, {"cpu.max": "100000 100000"})

    assert cgroups.cpu_quota(proc) == 1.0


def test_what_cannot_be_read_limits_nothing(tmp_path: Path) -> None:
    assert cgroups.cpu_quota(tmp_path / "none") is None
    assert cgroups.cpu_quota(process(tmp_path, "nonsense\n", V2, {})) is None


MEMORY = "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"


@pytest.mark.parametrize(
    ("groups", "mounts", "files", "kills", "limit_bytes"),
    [
        (
            "0::/slurm/job_7/step_0\n",
            V2,
            {
                "slurm/job_7/step_0/memory.events": "high 0\nmax 31\noom 2\noom_kill 2\noom_group_kill 0",
                "slurm/job_7/memory.events": "oom 9\noom_kill 9",
                "slurm/job_7/step_0/memory.max": "max",
                "slurm/job_7/memory.max": "1073741824",
            },
            2,
            1 << 30,
        ),
        (
            "4:memory:/slurm/job_7\n0::/\n",
            MEMORY + V2,
            {
                "memory/slurm/job_7/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 1",
                "memory/slurm/job_7/memory.limit_in_bytes": "9223372036854771712",
                "memory/slurm/memory.limit_in_bytes": "67108864",
            },
            1,
            64 << 20,
        ),
        ("4:memory:/\n", MEMORY, {"memory/memory.limit_in_bytes": "9223372036854771712"}, None, None),
        ("0::/\n", V2, {"memory.events": "oom_kill many"}, None, None),
        ("", "", {}, None, None),
    ],
)
def test_kills_for_want_of_memory_are_those_of_the_own_group_and_its_limit_the_smallest_around_it(
    groups: str,
    mounts: str,
    files: dict[str, str],
    kills: int | None,
    limit_bytes: int | None,
    tmp_path: Path,
) -> None:
    proc = process(tmp_path, groups, mounts, files)

    assert (cgroups.memory_kills(proc), cgroups.memory_limit_bytes(proc)) == (kills, limit_bytes)
