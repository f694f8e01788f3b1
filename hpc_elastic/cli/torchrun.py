"""torchrun's options: what each becomes in `hpc-elastic run`; the source of docs/from-torchrun.md.

Loaded where an option is refused and where the page is made, never by an agent that starts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hpc_elastic.values import dataclass


@dataclass(frozen=True)
class Row:
    """One option of torchrun.

    `default`: torchrun's. `here`: what it does in `run`, or, where it `is_refused`, what to use instead.
    """

    default: str
    here: str
    is_refused: bool = False


OPTIONS: Final[Mapping[str, Row]] = {
    "--nnodes": Row("1:1", "the same; the nodes of the Slurm job where it is left out, else 1"),
    "--nproc-per-node": Row(
        "1",
        "the same, counted by what the agent is given (affinity, control groups, Slurm) and not by what the "
        "machine has; `auto` by default: one for each visible accelerator, else 1 (there one for each CPU)",
    ),
    "--rdzv-backend": Row(
        "static",
        "`auto` by default: etcd where an endpoint is given and answers, else the run directory; `static` "
        "and `c10d` are refused, because a store on one node ends with it: leave the option out",
    ),
    "--rdzv-endpoint": Row("empty", "the members of an etcd cluster; nothing is needed without one"),
    "--rdzv-id": Row("none", "the name of the run; that of the Slurm job by default"),
    "--rdzv-conf": Row(
        "empty",
        "`join_timeout` (or `timeout`), `last_call_timeout`, `heartbeat` (or `keep_alive_interval`) in "
        "seconds, and those of etcd; others are refused by name",
    ),
    "--standalone": Row("off", "the same: this node alone"),
    "--max-restarts": Row("0", "3 by default; of the whole run and not of each agent, kept across requeues"),
    "--monitor-interval": Row("0.1", "1 by default; the end of a worker is seen at once, whatever it is"),
    "--start-method": Row(
        "spawn", "`spawn`; `fork` and `forkserver` are refused: workers are fresh processes"
    ),
    "--event-log-handler": Row(
        "null", "a sink beside `events/<node>.jsonl` in the run directory, which is always written"
    ),
    "--role": Row("default", "the same"),
    "--module": Row("off", "the same, also as `-m`"),
    "--no-python": Row("off", "the same"),
    "--run-path": Row("off", "the same; a script always runs in the worker's own interpreter"),
    "--log-dir": Row(
        "a temporary directory",
        "`DIR/<run id>/<attempt>/<round>/<rank>.out` and `.err`; without it below `logs` in the run "
        "directory, which links there else",
    ),
    "--redirects": Row("0", "what is not shown; all output is in files anyway"),
    "--tee": Row("0", "what is shown; all of rank 0 without it"),
    "--local-ranks-filter": Row("empty", "the same, with ranges: `0-3,6`"),
    "--duplicate-stdout-filters": Row(
        "empty", "lines go to `filtered_stdout.<node>.log` beside the files of the ranks"
    ),
    "--duplicate-stderr-filters": Row(
        "empty", "lines go to `filtered_stderr.<node>.log` beside the files of the ranks"
    ),
    "--node-rank": Row("0", "the place in the node order, outside Slurm; ranks are agreed on anyway"),
    "--master-addr": Row("127.0.0.1", "replaces the agreed address of rank 0's node; not needed"),
    "--master-port": Row("29500", "replaces the agreed free port; not needed"),
    "--local-addr": Row("none", "the same: by which address others reach this node"),
    "--logs-specs": Row(
        "none",
        "use --tee, --redirects, --log-dir and the filters, or `LogsSpecs` of `hpc_elastic.agent`",
        is_refused=True,
    ),
    "--numa-binding": Row(
        "none",
        "`exclusive`: an equal share of the allowed CPUs for each worker, neighbours together, whether or "
        "not there are GPUs; `node`, `socket` and `core-complex` are refused: let Slurm bind the agent",
    ),
    "--signals-to-handle": Row(
        "SIGTERM,SIGINT,SIGHUP,SIGQUIT",
        "these always stop workers; what announces a stop (USR1, USR2) is named with `--notice-signal`, and "
        "others are refused",
    ),
    "--shutdown-timeout": Row("30", "the same"),
    "--virtual-local-rank": Row("off", "the same, also with ROCm's and Intel's variables"),
}

# Values that torchrun takes and `run` does not, by option; the rest is where the option is read.
BACKENDS: Final[Mapping[str, str]] = {
    "c10d": "a store on one node ends with that node; leave --rdzv-backend out: the nodes meet in the run "
    "directory, or in etcd where --rdzv-endpoint names one",
    "static": "ranks need not be numbered by hand; leave --rdzv-backend out, and give the number of nodes "
    "with --nnodes where no Slurm job says it",
}


def instead_of(option: str) -> str | None:
    """What to use in place of an option of torchrun that `run` refuses; None for any other word."""
    row = OPTIONS.get(option)
    return row.here if row is not None and row.is_refused else None


def page() -> str:
    """The page for people who come from torchrun."""
    rows = "\n".join(
        f"| `{option}` | {row.default} | {'refused: ' if row.is_refused else ''}{row.here} |"
        for option, row in OPTIONS.items()
    )
    return f"""# From torchrun

Made from `hpc_elastic/cli/torchrun.py` by `make docs`; do not edit.

`hpc-elastic run` takes the place of `torchrun`, one on each node: put it there and leave out what names a
rendezvous. Workers find the environment variables that torchrun sets. Options may be written with
underscores too; variables `PET_*` are not read.

```bash
srun --ntasks-per-node=1 torchrun --nnodes 4 --nproc-per-node 8 --rdzv-backend c10d \\
    --rdzv-id $SLURM_JOB_ID --rdzv-endpoint $HEAD:29500 --max-restarts 3 train.py
srun --ntasks-per-node=1 hpc-elastic run --nproc-per-node 8 train.py
```

| torchrun | its default | here |
| --- | --- | --- |
{rows}

`OMP_NUM_THREADS`, where it is not set, is the number of CPUs that the agent is given divided by its workers;
torchrun sets 1. The output of workers is kept whole: there is no bound on its size, nothing is cut, and a
requeue writes to files of a new attempt. The files of events, which are ours, are bounded.
"""
