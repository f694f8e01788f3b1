"""Which options of sbatch a user may give to `submit(slurm=...)`, and which are `submit`'s own."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping
from typing import Any, Final

from hpc_elastic.errors import UsageError

# The long options of sbatch 20.11 to 24.11 that are not submitit's own parameters, underscored.
SBATCH: Final = frozenset(
    """
    acctg_freq batch bb bbf begin chdir cluster_constraint container container_id contiguous core_spec
    cores_per_socket cpu_freq cpus_per_gpu cpus_per_task deadline delay_boot dependency distribution exclude
    exclusive export export_file extra extra_node_info get_user_env gpu_bind gpu_freq gpus gpus_per_node
    gpus_per_socket gpus_per_task gres gres_flags hint hold kill_on_invalid_dep licenses mail_type mail_user
    mcs_label mem mem_bind mem_per_cpu mem_per_gpu mincpus network nice nodefile nodelist oom_kill_step
    overcommit oversubscribe partition power prefer priority profile propagate qos reboot reservation segment
    sockets_per_node spread_job stepmgr switches thread_spec threads_per_core time time_min tmp tres_bind
    tres_per_task use_min_nodes wait_all_nodes wckey
    """.split()  # noqa: SIM905 - a list of 60 quoted names reads worse
)

# Names that would undo what the batch script needs, with the way to say it.
RESERVED: Final[Mapping[str, str]] = {
    **dict.fromkeys(("nodes", "N"), "give submit(nodes=...)"),
    **dict.fromkeys(
        (
            "ntasks", "ntasks_per_node", "tasks_per_node", "ntasks_per_core", "ntasks_per_gpu",
            "ntasks_per_socket",
        ),
        "each node has one agent, which starts its workers: give submit(nproc_per_node=...)",
    ),
    **dict.fromkeys(("requeue", "no_requeue"), "give submit(requeue=...)"),
    **dict.fromkeys(("job_name", "name"), "give submit(name=...)"),
    **dict.fromkeys(("output", "error", "stderr_to_stdout"), "all output is in the run directory"),
    "signal": "the notice comes as USR2; give signal_delay_s, how many seconds before the time limit",
    **dict.fromkeys(("open_mode", "no_kill"), "the run needs its own value to live through a requeue"),
    **dict.fromkeys(("array", "array_parallelism"), "one submission is one job; call submit for each"),
    **dict.fromkeys(("setup", "teardown"), "give submit(setup=...)"),
    **dict.fromkeys(("srun_args", "use_srun"), "the batch script starts the agents by its own srun"),
    **dict.fromkeys(("clusters", "wrap", "wait", "test_only", "parsable"), "it is not supported yet"),
}  # fmt: skip


def check(options: Mapping[str, Any], submitits: Collection[str]) -> None:
    """Raise UsageError for the first option that is unknown, reserved, or has no usable value."""
    valid = (SBATCH | set(submitits)) - set(RESERVED)
    for name, value in options.items():
        if name in RESERVED:
            raise UsageError(f"slurm={{{name!r}: {value!r}}} is set by submit itself; {RESERVED[name]}")
        if name not in valid:
            near = difflib.get_close_matches(name, valid, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"valid are: {', '.join(sorted(valid))}"
            raise UsageError(f"slurm has no option {name!r}; {hint}")
        if not isinstance(value, (str, int, float)) or not str(value).isprintable():
            raise UsageError(
                f"slurm={{{name!r}: {value!r}}} has no value that sbatch takes; give text or a number"
            )
        if value is False:
            raise UsageError(f"slurm={{{name!r}: False}} has no meaning for sbatch; leave the option out")
