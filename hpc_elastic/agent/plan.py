"""What one agent was asked to do: parsed once by the command line, frozen from then on."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from hpc_elastic.agent.notices import Foresee
from hpc_elastic.agent.rundir import RunDirectory
from hpc_elastic.rendezvous.standing import Seat, Settings
from hpc_elastic.values import dataclass, field
from hpc_elastic.workers.process import Program
from hpc_elastic.workers.streams import Console, Filters

if TYPE_CHECKING:
    from hpc_elastic.agent.health import HealthCommand
    from hpc_elastic.agent.overdue import Limits


@dataclass(frozen=True)
class Plan:
    """One agent's task. `environment` is the agent's own; workers get it cleaned and completed.

    `monitor_interval_s` is how often workers are looked at without an event; `master_address` and
    `master_port` replace what a round negotiates, where given. With `virtual_local_rank` each worker sees
    LOCAL_RANK 0 and its own device alone, with `splits_cpus` it runs
    on an equal share of this process's CPUs. `backend` is where the nodes meet, for those who are told of it.
    Lines with one of the `filters` in them go to an aggregate log of the node as well.
    `log_dir` is where log files lie instead of the run directory, which then points there;
    `event_log_handler` names a sink for events beside the file of them.
    Ranks that show no sign of going on within `limits` are ended, where given, and
    before each join the command `health` is asked.
    """

    run_id: str
    directory: RunDirectory
    program: Program
    seat: Seat
    settings: Settings
    environment: Mapping[str, str]
    console: Console
    cpus: int
    monitor_interval_s: float
    keeps_slurm: bool = False
    master_address: str = ""
    master_port: int = 0
    virtual_local_rank: bool = False
    splits_cpus: bool = False
    backend: str = ""
    filters: Filters = field(default_factory=Filters)
    log_dir: Path | None = None
    event_log_handler: str = "null"
    limits: Limits | None = None
    health: HealthCommand | None = None
    foresee: Foresee | None = None  # tells by itself when this node has to go
