"""The files that Slurm reads, as text: pure functions of the options."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from hpc_elastic.testing.sandbox.layout import Layout
from hpc_elastic.testing.sandbox.options import SandboxOptions
from hpc_elastic.testing.sandbox.ports import LOOPBACK

SANDBOX_VARIABLE: Final = "HPC_ELASTIC_SANDBOX"
NODE_VARIABLE: Final = "HPC_ELASTIC_SANDBOX_NODE"
LOOPBACK_VARIABLE: Final = "HPC_ELASTIC_ALLOW_LOOPBACK"
LOW_PARTITION: Final = "low"
HIGH_PARTITION: Final = "high"

# Slurm waits the credential lifetime (2 minutes) before it starts a requeued job again; with 6 s it
# is 7 s, and shorter values are ignored (measured, 22.05.8).
CREDENTIAL_LIFETIME_S: Final = 6


@dataclass(frozen=True)
class Ports:
    """Where the daemons listen."""

    controller: int
    nodes: tuple[int, ...]
    accounting: int | None = None

    @classmethod
    def from_row(cls, row: tuple[int, ...], options: SandboxOptions) -> Ports:
        """Deal out `options.ports_needed` ports."""
        accounting = row[options.nodes + 1] if options.accounting else None
        return cls(controller=row[0], nodes=row[1 : options.nodes + 1], accounting=accounting)


@dataclass(frozen=True)
class Site:
    """One sandbox as the daemons will see it.

    Daemons listen on loopback only where `keeps_to_loopback`; Slurm cannot be told to on a machine whose
    own name leads elsewhere (`ports.name_is_loopback`), and there the munge key keeps strangers out.
    """

    layout: Layout
    options: SandboxOptions
    ports: Ports
    cluster: str
    memory_mb: int
    keeps_to_loopback: bool = True

    @property
    def listening(self) -> tuple[str, ...]:
        """The line that keeps daemons off the network, where it can."""
        return ("CommunicationParameters=NoInAddrAny,NoCtldInAddrAny",) if self.keeps_to_loopback else ()


def slurm_conf(site: Site) -> str:
    """The text of `slurm.conf`."""
    return "\n".join((*_cluster_lines(site), *_scheduling_lines(site), *_node_lines(site), ""))


def _cluster_lines(site: Site) -> tuple[str, ...]:
    layout, info = site.layout, f"socket={site.layout.munge_socket},cred_expire={CREDENTIAL_LIFETIME_S}"
    accounting = (
        "AccountingStorageType=accounting_storage/slurmdbd",
        f"AccountingStorageHost={LOOPBACK}",
        f"AccountingStoragePort={site.ports.accounting}",
        # With munge the "password" is the path of the socket: AuthInfo is not asked here.
        f"AccountingStoragePass={site.layout.munge_socket}",
        "JobAcctGatherType=jobacct_gather/linux",
    )
    return (
        f"ClusterName={site.cluster}",
        f"SlurmctldHost=localhost({LOOPBACK})",
        f"SlurmctldPort={site.ports.controller}",
        *site.listening,
        "SlurmUser=root",
        "SlurmdUser=root",
        "AuthType=auth/munge",
        f"AuthInfo={info}",
        f"StateSaveLocation={layout.controller_state}",
        f"SlurmctldPidFile={layout.run}/slurmctld.pid",
        f"SlurmctldLogFile={layout.log}/slurmctld.log",
        f"SlurmdPidFile={layout.run}/slurmd-%n.pid",
        f"SlurmdLogFile={layout.log}/slurmd-%n.log",
        f"SlurmdSpoolDir={layout.spool}/%n",
        f"TaskProlog={layout.task_prolog}",
        "MailProg=/bin/true",
        *(accounting if site.options.accounting else ()),
    )


def _scheduling_lines(site: Site) -> tuple[str, ...]:
    return (
        f"ProctrackType=proctrack/{site.options.proctrack}",
        "MpiDefault=none",
        "SelectType=select/cons_tres",
        "SelectTypeParameters=CR_CPU",
        # Nodes may have more CPUs than the machine has.
        "SlurmdParameters=config_overrides",
        "SchedulerParameters=sched_interval=1,bf_interval=1,batch_sched_delay=0,sched_min_interval=0",
        "PreemptType=preempt/partition_prio",
        f"PreemptMode={site.options.preempt_mode.upper()}",
        # Newer releases call it PreemptParameters=send_user_signal and take this name too; 22.05 refuses
        # the newer one.
        *(("SlurmctldParameters=preempt_send_user_signal",) if site.options.user_signal else ()),
        *(
            (f"RequeueExit={','.join(map(str, site.options.requeue_exit))}",)
            if site.options.requeue_exit
            else ()
        ),
        "ReturnToService=2",
        f"SlurmdTimeout={site.options.slurmd_timeout_s}",
        f"KillWait={site.options.kill_wait_s}",
        # A step that cannot report its end to a stopped controller counts as unkillable, and its node is
        # drained: by default after a minute.
        "UnkillableStepTimeout=180",
        "MinJobAge=900",
    )


def _node_lines(site: Site) -> tuple[str, ...]:
    options, names = site.options, ",".join(site.options.node_names)
    nodes = tuple(
        f"NodeName={name} NodeHostname=localhost NodeAddr={LOOPBACK} Port={port} "
        f"CPUs={options.cpus_per_node} RealMemory={site.memory_mb}"
        for name, port in zip(options.node_names, site.ports.nodes, strict=True)
    )
    preempted = f"PreemptMode={options.preempt_mode.upper()} GraceTime={options.grace_s}"
    return (
        *nodes,
        f"PartitionName={LOW_PARTITION} Nodes={names} Default=YES PriorityTier=1 {preempted}",
        f"PartitionName={HIGH_PARTITION} Nodes={names} PriorityTier=10 PreemptMode=OFF",
    )


def task_prolog(layout: Layout) -> str:
    """The script whose output Slurm adds to the environment of every task and batch script.

    It serves jobs that were not submitted through `exec`, and marks every process with its node.
    """
    return "\n".join(
        (
            "#!/bin/sh",
            f"echo 'export {SANDBOX_VARIABLE}={layout.directory}'",
            f'echo "export {NODE_VARIABLE}=$SLURMD_NODENAME"',
            f"echo 'export {LOOPBACK_VARIABLE}=1'",
            # Slurm 22.05 leaves the prolog's own context in the environment of the task.
            "echo 'unset SLURM_SCRIPT_CONTEXT'",
            "",
        )
    )


def slurmdbd_conf(site: Site) -> str:
    """The text of `slurmdbd.conf`; the database trusts root on its own socket, so no password."""
    layout = site.layout
    return "\n".join(
        (
            "AuthType=auth/munge",
            f"AuthInfo=socket={layout.munge_socket}",
            "DbdHost=localhost",
            f"DbdAddr={LOOPBACK}",
            f"DbdPort={site.ports.accounting}",
            *site.listening,
            "SlurmUser=root",
            f"LogFile={layout.log}/slurmdbd.log",
            f"PidFile={layout.run}/slurmdbd.pid",
            "StorageType=accounting_storage/mysql",
            "StorageHost=localhost",
            "StorageUser=root",
            "StorageLoc=slurm_acct_db",
            "",
        )
    )
