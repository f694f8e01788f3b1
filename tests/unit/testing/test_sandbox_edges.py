"""Where a sandbox meets the machine: ports, packages, directories, identities, records."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from hpc_elastic.errors import SandboxError, UsageError
from hpc_elastic.testing.sandbox import SandboxOptions, account, directory, jobs, packages, ports, state
from hpc_elastic.testing.sandbox.account import Account
from hpc_elastic.testing.sandbox.layout import DEFAULT_DIRECTORY, Layout
from hpc_elastic.testing.sandbox.ports import PortTaken
from hpc_elastic.testing.sandbox.processes import ProcessId, Seen, with_descendants
from hpc_elastic.testing.sandbox.state import DaemonRecord, SandboxState

BOX = Layout(Path("/srv/box"))
ALICE = Account("alice", 1000, 1000, (1000, 50), Path("/home/alice"), "/bin/bash")


def test_a_row_with_a_taken_port_in_it_is_drawn_again() -> None:
    draws = iter((0, 100))

    row = ports.choose_row(3, draw=lambda _: next(draws), free=lambda port: port != 10_001)

    assert row == (10_100, 10_101, 10_102)


def test_a_taken_port_that_was_asked_for_is_named() -> None:
    with pytest.raises(PortTaken, match="port 17002 is taken"):
        ports.fixed_row(17_000, 5, free=lambda port: port != 17_002)


def test_no_free_row_is_an_error_and_not_an_endless_search() -> None:
    with pytest.raises(PortTaken, match="no 3 free ports"):
        ports.choose_row(3, draw=lambda _: 0, free=lambda _: False)


def test_a_missing_program_is_named_with_its_debian_package() -> None:
    installed = set(packages.SLURM_PROGRAMS) | {"slurmdbd"}

    missing = packages.missing_programs(
        accounting=True, find=lambda name: name if name in installed else None
    )

    assert missing == {"mariadbd": "mariadb-server", "mariadb-install-db": "mariadb-server"}
    assert packages.describe_missing(missing).endswith(
        "apt-get install --no-install-recommends mariadb-server"
    )


def test_the_directory_is_the_option_then_the_variable_then_roots_cache(tmp_path: Path) -> None:
    variable = {"HPC_ELASTIC_SANDBOX": str(tmp_path / "variable")}

    assert directory.locate(str(tmp_path / "option"), variable).directory == tmp_path / "option"
    assert directory.locate(None, variable).directory == tmp_path / "variable"
    assert directory.locate(None, {}).directory == DEFAULT_DIRECTORY


def test_only_an_empty_directory_or_a_sandboxs_own_is_taken(tmp_path: Path) -> None:
    box = Layout(tmp_path)
    assert directory.holds_only_ours(box)

    (tmp_path / "thesis.tex").touch()
    assert not directory.holds_only_ours(box)

    box.state_file.touch()
    assert directory.holds_only_ours(box)


@pytest.mark.parametrize(
    ("path", "why"), [("/srv/my box", "takes only letters"), ("/" + "d" * 90, "91 characters")]
)
def test_a_path_that_slurm_or_a_socket_cannot_take_is_refused(path: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        directory.check(Layout(Path(path)), ALICE)


def test_removing_leaves_files_that_are_not_the_sandboxs(tmp_path: Path) -> None:
    box = Layout(tmp_path / "box")
    directory.make(box)
    box.slurm_conf.touch()
    box.spool.mkdir()
    notes = box.directory / "notes.txt"
    notes.touch()

    directory.remove(box)
    assert list(box.directory.iterdir()) == [notes]

    notes.unlink()
    directory.remove(box)
    assert not box.directory.exists()


def test_two_commands_cannot_change_a_sandbox_at_once(tmp_path: Path) -> None:
    box = Layout(tmp_path)

    with (
        directory.claimed(box),
        pytest.raises(SandboxError, match=f"pid {os.getpid()}"),
        directory.claimed(box),
    ):
        pass

    with directory.claimed(box):
        assert box.lock.exists()


def test_a_command_sees_this_slurm_and_no_surrounding_job() -> None:
    outside = {
        "SLURM_JOB_ID": "7",
        "SLURM_CONF": "/etc/slurm/slurm.conf",
        "HPC_ELASTIC_SANDBOX_NODE": "n1",
        "SBATCH_NO_REQUEUE": "1",
        "XDG_CACHE_HOME": "/root/.cache",
        "HOME": "/root",
        "USER": "root",
        "PATH": "/opt/bin",
        "MY": "own",
    }

    assert account.environment(outside, BOX, ALICE) == {
        "SBATCH_NO_REQUEUE": "1",
        "PATH": "/opt/bin",
        "MY": "own",
        "SLURM_CONF": "/srv/box/slurm.conf",
        "HPC_ELASTIC_SANDBOX": "/srv/box",
        "HPC_ELASTIC_ALLOW_LOOPBACK": "1",
        "HOME": "/home/alice",
        "USER": "alice",
        "LOGNAME": "alice",
        "SHELL": "/bin/bash",
    }


def test_an_unknown_user_is_named() -> None:
    with pytest.raises(UsageError, match="--user no-such-user-here"):
        account.choose("no-such-user-here", BOX, {})


def test_a_closed_directory_is_seen_through_the_eyes_of_the_user(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    stranger = replace(ALICE, uid=os.getuid() + 12_345, gid=54_321, groups=(54_321,))

    assert not stranger.may_enter(tmp_path)
    assert replace(stranger, uid=os.getuid()).may_enter(tmp_path)


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    box = Layout(tmp_path)
    found = SandboxState("sandbox_1", "alice", SandboxOptions(nodes=2), 17_000, (17_001, 17_002))
    assert state.read(box) is None

    announced = found.with_daemon(DaemonRecord("munged")).with_daemon(DaemonRecord("slurmctld"))
    started = announced.with_daemon(DaemonRecord("munged", ProcessId(12, 345))).brought_up()
    state.write(box, started)

    assert state.read(box) == started
    assert started.process_of("munged") == ProcessId(12, 345)
    assert started.process_of("slurmctld") is None


def test_a_damaged_record_says_how_to_clear_it(tmp_path: Path) -> None:
    box = Layout(tmp_path)
    box.state_file.write_text('{"schema": 99}')

    with pytest.raises(SandboxError, match=r"schema 99.*sandbox down --dir"):
        state.read(box)


def test_descendants_go_down_and_never_up_to_ourselves() -> None:
    me = os.getpid()
    family = [
        Seen(ProcessId(9_000_001, 1), 1, "slurmd"),
        Seen(ProcessId(9_000_002, 1), 9_000_001, "task"),
        Seen(ProcessId(9_000_003, 1), 9_000_002, "shell"),
        Seen(ProcessId(me, 1), 9_000_003, "down"),
        Seen(ProcessId(9_000_004, 1), 9_000_002, "sleep"),
        Seen(ProcessId(9_000_005, 1), 1, "other"),
    ]

    found = {seen.name for seen in with_descendants(family[:1], family)}

    assert found == {"sleep"}


def test_a_job_record_with_blanks_in_its_values_is_split_at_its_names() -> None:
    line = (
        "JobId=3 JobName=my job JobState=RUNNING Reason=None Reserve:Core=2 "
        "Command=/bin/train --lr 0.1 WorkDir=/home/a b Comment= Power="
    )

    assert jobs.parse(line) == {
        "JobId": "3",
        "JobName": "my job",
        "JobState": "RUNNING",
        "Reason": "None",
        "Reserve:Core": "2",
        "Command": "/bin/train --lr 0.1",
        "WorkDir": "/home/a b",
        "Comment": "",
        "Power": "",
    }
