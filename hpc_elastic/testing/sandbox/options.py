"""What a person may choose about a sandbox, checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from hpc_elastic.errors import UsageError

PreemptMode = Literal["requeue", "cancel"]
PREEMPT_MODES: Final[tuple[PreemptMode, ...]] = ("requeue", "cancel")
ProcessTracking = Literal["linuxproc", "pgid"]
PROCESS_TRACKINGS: Final[tuple[ProcessTracking, ...]] = ("linuxproc", "pgid")
MOST_NODES: Final = 64


@dataclass(frozen=True)
class SandboxOptions:
    """One sandbox as asked for; `check` refuses what Slurm would only refuse later."""

    nodes: int = 4
    cpus_per_node: int = 2
    grace_s: int = 20
    kill_wait_s: int = 5
    """How long what is left of a job may go on after TERM, before KILL; Slurm's own default is 30."""
    preempt_mode: PreemptMode = "requeue"
    user_signal: bool = False
    accounting: bool = False
    proctrack: ProcessTracking = "linuxproc"
    """How Slurm finds the processes of a step: by their parents, or by their process group alone."""
    slurmd_timeout_s: int = 10
    """SlurmdTimeout: how long a node may be silent before Slurm takes it for dead."""
    requeue_exit: str = ""
    """Exit statuses with which this site starts a job again by itself, as in RequeueExit: `7,10-12`."""
    user: str | None = None
    """The ordinary user of `exec`; None: the user behind sudo, else an account made for it."""
    port: int | None = None
    """First of a row of ports; None: free ones are chosen."""

    def check(self) -> None:
        """Raise `UsageError` for the first value that cannot be used."""
        if not 1 <= self.nodes <= MOST_NODES:
            raise UsageError(f"--nodes {self.nodes}: a sandbox has 1 to {MOST_NODES} nodes")
        if not 1 <= self.cpus_per_node <= 256:
            raise UsageError(f"--cpus-per-node {self.cpus_per_node}: give a number from 1 to 256")
        if not 0 <= self.grace_s <= 65_533:
            raise UsageError(
                f"--grace {self.grace_s}: give seconds from 0 to 65533, the largest GraceTime of Slurm"
            )
        if not 1 <= self.kill_wait_s <= 65_534:
            raise UsageError(
                f"kill wait {self.kill_wait_s}: give seconds from 1 to 65534, the largest of Slurm"
            )
        if self.preempt_mode not in PREEMPT_MODES:
            raise UsageError(f"--preempt-mode {self.preempt_mode}: choose one of {', '.join(PREEMPT_MODES)}")
        if self.proctrack not in PROCESS_TRACKINGS:
            raise UsageError(f"proctrack {self.proctrack}: choose one of {', '.join(PROCESS_TRACKINGS)}")
        if self.port is not None and not 1024 <= self.port <= 65_535 - self.ports_needed:
            raise UsageError(
                f"--port {self.port}: the row of {self.ports_needed} ports must lie between 1024 and 65535"
            )

    @property
    def ports_needed(self) -> int:
        """Controller and nodes, and the accounting daemon where there is one."""
        return 1 + self.nodes + (1 if self.accounting else 0)

    @property
    def node_names(self) -> tuple[str, ...]:
        """`n1`, `n2`, ... in order."""
        return tuple(f"n{number}" for number in range(1, self.nodes + 1))
