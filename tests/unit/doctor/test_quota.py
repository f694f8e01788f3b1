"""What is left of a quota, from the two tools that tell it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from hpc_elastic.doctor import quota
from hpc_elastic.doctor.finding import Finding, Level
from hpc_elastic.slurm.commands import Answer

COLUMNS = "quota   limit   grace   files   quota   limit   grace"
HEAD = f"Disk quotas for user ann (uid 1000): \n     Filesystem  {{}}   {COLUMNS}\n"
QUOTA = HEAD.format("blocks") + "      /dev/sda1 {} 20971520 31457280       0   {}  100000  200000       0\n"
LUSTRE = HEAD.format("kbytes") + (
    "/scratch/project/a-long-name\n"
    "                {}  20971520 31457280       -     {}  100000  200000       -\n"
    "uid 1000 is using default block quota setting\n"
)


class Tool:
    """Answers once, and keeps what it was asked."""

    def __init__(self, output: str, status: int = 0) -> None:
        self.output, self.status = output, status
        self.asked: Sequence[str] = ()

    def __call__(self, command: Sequence[str], timeout_s: float) -> Answer:
        self.asked = command
        return Answer(tuple(command), self.status, self.output)


def findings(tool: Tool, kind: str = "nfs4", place: Path = Path("/")) -> list[Finding]:
    return list(quota.look(place, kind, tool))


@pytest.mark.parametrize("table", [QUOTA, LUSTRE])
def test_what_is_left_is_told_in_bytes_and_files(table: str) -> None:
    found = findings(Tool(table.format("10485760", "50")))

    assert [(one.level, one.fact) for one in found] == [
        (Level.FINE, "20 of 30 GiB are left"),
        (Level.FINE, "199950 of 200000 files are left"),
    ]


@pytest.mark.parametrize("table", [QUOTA, LUSTRE])
def test_a_quota_that_is_nearly_used_up_is_a_problem_with_what_to_type(table: str) -> None:
    tool = Tool(table.format("31457000*", "[199999]"))

    found = findings(tool)

    assert [one.level for one in found] == [Level.PROBLEM, Level.PROBLEM]
    assert found[0].fact == "0.000267 of 30 GiB are left"
    assert found[1].fact == "1 of 200000 files are left"
    assert found[0].do == " ".join(tool.asked)


def test_more_than_is_allowed_leaves_nothing() -> None:
    assert findings(Tool(QUOTA.format("41457280*", "1")))[0].fact == "0 of 30 GiB are left"


def test_without_a_hard_limit_the_soft_one_counts_and_without_both_there_is_none() -> None:
    soft = QUOTA.replace("31457280", "0").format("1048576", "7")
    none = soft.replace("20971520", "0").replace("100000", "0").replace("200000", "0")

    assert findings(Tool(soft))[0].fact == "19 of 20 GiB are left"
    assert [one.fact for one in findings(Tool(none))] == [
        "1 GiB are used, without a limit",
        "7 files are used, without a limit",
    ]


@pytest.mark.parametrize(
    ("output", "status", "says"),
    [
        ("", 127, "not known: there is no quota"),
        ("Disk quotas for user ann (uid 1000): none\n", 0, "not known: `quota -w -p -f /` shows none"),
        (HEAD.format("blocks") + " /dev/sda1 a b c d e f g h\n", 0, "shows none"),
        (HEAD.format("blocks") + " /dev/sda1 1 2\n", 0, "shows none"),
        ("", 1, "shows none"),
    ],
)
def test_where_it_is_not_told_that_is_said_and_no_problem(output: str, status: int, says: str) -> None:
    (only,) = findings(Tool(output, status))

    assert only.level is Level.FINE
    assert says in only.fact


def test_each_file_system_is_asked_by_its_own_tool(tmp_path: Path) -> None:
    lustre, other = Tool(""), Tool("")

    findings(lustre, "lustre", tmp_path)
    findings(other, "xfs", tmp_path / "not" / "there")

    assert (lustre.asked[:3], lustre.asked[-1]) == (("lfs", "quota", "-u"), str(tmp_path))
    assert Path(other.asked[-1]).is_mount()
