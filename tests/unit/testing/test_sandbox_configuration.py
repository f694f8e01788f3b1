"""What Slurm reads, as text."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hpc_elastic.errors import UsageError
from hpc_elastic.testing.sandbox import SandboxOptions, configuration
from hpc_elastic.testing.sandbox.configuration import Ports, Site
from hpc_elastic.testing.sandbox.layout import Layout
from hpc_elastic.testing.sandbox.ports import name_is_loopback


def site(options: SandboxOptions) -> Site:
    row = tuple(range(17_000, 17_000 + options.ports_needed))
    return Site(Layout(Path("/srv/box")), options, Ports.from_row(row, options), "sandbox_0a1b2c", 8000)


def lines(options: SandboxOptions) -> list[str]:
    return configuration.slurm_conf(site(options)).splitlines()


def test_each_node_has_its_own_port_on_loopback() -> None:
    nodes = [line for line in lines(SandboxOptions(nodes=2, cpus_per_node=3)) if line.startswith("NodeName")]

    assert nodes == [
        "NodeName=n1 NodeHostname=localhost NodeAddr=127.0.0.1 Port=17001 CPUs=3 RealMemory=8000",
        "NodeName=n2 NodeHostname=localhost NodeAddr=127.0.0.1 Port=17002 CPUs=3 RealMemory=8000",
    ]


def test_only_the_default_partition_can_be_preempted() -> None:
    options = SandboxOptions(nodes=2, grace_s=7, preempt_mode="cancel")
    partitions = [line for line in lines(options) if line.startswith("PartitionName")]

    assert partitions == [
        "PartitionName=low Nodes=n1,n2 Default=YES PriorityTier=1 PreemptMode=CANCEL GraceTime=7",
        "PartitionName=high Nodes=n1,n2 PriorityTier=10 PreemptMode=OFF",
    ]
    assert "PreemptMode=CANCEL" in lines(options)


def test_what_is_left_of_a_job_is_killed_after_five_seconds_or_as_many_as_are_asked_for() -> None:
    assert "KillWait=5" in lines(SandboxOptions())
    assert "KillWait=30" in lines(SandboxOptions(kill_wait_s=30))


def test_the_user_signal_is_on_only_when_asked_for() -> None:
    wanted = "SlurmctldParameters=preempt_send_user_signal"

    assert wanted in lines(SandboxOptions(user_signal=True))
    assert wanted not in lines(SandboxOptions())


def test_a_silent_node_is_taken_for_dead_after_ten_seconds_or_as_many_as_are_asked_for() -> None:
    assert "SlurmdTimeout=10" in lines(SandboxOptions())
    assert "SlurmdTimeout=90" in lines(SandboxOptions(slurmd_timeout_s=90))


def test_every_path_lies_in_the_directory_and_the_munge_socket_is_private() -> None:
    found = lines(SandboxOptions(accounting=True))
    paths = [word for line in found for word in line.replace(",", "=").split("=") if word.startswith("/")]

    assert "AuthInfo=socket=/srv/box/munge/socket,cred_expire=6" in found
    assert "AccountingStoragePass=/srv/box/munge/socket" in found
    assert {path for path in paths if not path.startswith("/srv/box/")} == {"/bin/true"}


def test_accounting_takes_the_port_behind_those_of_the_nodes() -> None:
    accounting = SandboxOptions(nodes=2, accounting=True)

    assert "AccountingStoragePort=17003" in lines(accounting)
    assert "DbdPort=17003" in configuration.slurmdbd_conf(site(accounting)).splitlines()
    assert not [line for line in lines(SandboxOptions()) if line.startswith("Accounting")]


def test_the_task_prolog_marks_each_process_with_its_node_and_opts_in_to_loopback() -> None:
    text = configuration.task_prolog(Layout(Path("/srv/box")))

    assert "echo 'export HPC_ELASTIC_SANDBOX=/srv/box'" in text
    assert 'echo "export HPC_ELASTIC_SANDBOX_NODE=$SLURMD_NODENAME"' in text
    assert "echo 'export HPC_ELASTIC_ALLOW_LOOPBACK=1'" in text


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (SandboxOptions(nodes=0), "--nodes 0"),
        (SandboxOptions(nodes=65), "--nodes 65"),
        (SandboxOptions(cpus_per_node=0), "--cpus-per-node 0"),
        (SandboxOptions(grace_s=-1), "--grace -1"),
        (SandboxOptions(kill_wait_s=0), "kill wait 0"),
        (SandboxOptions(preempt_mode="suspend"), "--preempt-mode suspend"),  # type: ignore[arg-type]
        (SandboxOptions(port=80), "--port 80"),
        (SandboxOptions(port=65_534), "--port 65534"),
    ],
)
def test_a_value_that_slurm_would_refuse_later_is_refused_at_once(
    options: SandboxOptions, named: str
) -> None:
    with pytest.raises(UsageError, match=named):
        options.check()


@pytest.mark.parametrize("address", ["127.0.1.1", "10.1.2.3"])
def test_daemons_listen_everywhere_where_the_own_name_is_not_loopback(address: str) -> None:
    assert name_is_loopback("host.example", look_up={"host": "127.0.0.1"}.__getitem__)
    assert not name_is_loopback("host.example", look_up={"host": address}.__getitem__)


def test_a_machine_whose_name_leads_nowhere_listens_everywhere() -> None:
    def fail(name: str) -> str:
        raise OSError(f"{name} is unknown")

    assert not name_is_loopback("host", look_up=fail)


def test_only_a_site_that_keeps_to_loopback_says_so_to_slurm() -> None:
    private = site(SandboxOptions(nodes=1, accounting=True))
    public = replace(private, keeps_to_loopback=False)

    assert "NoInAddrAny" in configuration.slurm_conf(private)
    assert "NoInAddrAny" in configuration.slurmdbd_conf(private)
    assert "InAddrAny" not in configuration.slurm_conf(public) + configuration.slurmdbd_conf(public)
