"""Which processes belong to a sandbox, or to one node of it: by evidence, not by memory.

`down` has to work after `up` was killed at any moment, so it trusts no list of pids: a daemon is
known by the log file that it holds open, a job's process by the marks in its environment or by
its parents.
"""

from __future__ import annotations

from typing import Final

from hpc_elastic.testing.sandbox import processes
from hpc_elastic.testing.sandbox.configuration import NODE_VARIABLE, SANDBOX_VARIABLE
from hpc_elastic.testing.sandbox.layout import Layout
from hpc_elastic.testing.sandbox.processes import Seen

# Debian calls them slurmd-wlm and so on; slurmscriptd is slurmctld's own program.
_DAEMONS: Final = ("munged", "slurmctld", "slurmd", "slurmstepd", "slurmdbd", "mariadbd", "mysqld")
_NODE_DAEMONS: Final = ("slurmd", "slurmstepd")
_CLIENTS: Final = ("srun", "salloc", "sbatch", "sattach")


def of_sandbox(layout: Layout) -> set[Seen]:
    """Daemons, Slurm's waiting clients, and all processes of jobs, wherever they have gone."""
    population = processes.everyone()
    roots = [seen for seen in population if _is_ours(seen, layout)]
    return processes.with_descendants(roots, population)


def of_node(layout: Layout, node: str) -> set[Seen]:
    """The slurmd of a node, its slurmstepds, their tasks, and what has left their tree.

    A slurmstepd is no child of its slurmd (observed, 22.05.8): it holds the same log file open.
    """
    population = processes.everyone()
    roots = [seen for seen in population if _is_of_node(seen, layout, node)]
    return processes.with_descendants(roots, population)


def daemons_of(layout: Layout) -> tuple[Seen, ...]:
    """The daemons alone."""
    return tuple(seen for seen in processes.everyone() if _is_daemon(seen, layout))


def slurmd_of(layout: Layout, node: str) -> Seen | None:
    """The slurmd of a node, if it runs."""
    log = str(layout.slurmd_log(node))
    for seen in processes.everyone():
        if _runs(seen, ("slurmd",)) and log in processes.open_files_of(seen.id.pid):
            return seen
    return None


def _is_ours(seen: Seen, layout: Layout) -> bool:
    if _is_daemon(seen, layout):
        return True
    environment = processes.environment_of(seen.id.pid)
    ours = environment.get("SLURM_CONF") == str(layout.slurm_conf)
    if ours and _runs(seen, _CLIENTS):
        return True
    return _node_of_task(environment, layout) is not None


def _is_of_node(seen: Seen, layout: Layout, node: str) -> bool:
    if _runs(seen, _NODE_DAEMONS):
        files = processes.open_files_of(seen.id.pid)
        return bool(files & {str(layout.slurmd_log(node)), str(layout.output_of(f"slurmd-{node}"))})
    return _node_of_task(processes.environment_of(seen.id.pid), layout) == node


def _is_daemon(seen: Seen, layout: Layout) -> bool:
    if not _runs(seen, _DAEMONS):
        return False
    below = f"{layout.directory}/"
    return any(path.startswith(below) for path in processes.open_files_of(seen.id.pid))


def _node_of_task(environment: dict[str, str], layout: Layout) -> str | None:
    """The node whose task has this environment, or None."""
    if environment.get(SANDBOX_VARIABLE) == str(layout.directory) and NODE_VARIABLE in environment:
        return environment[NODE_VARIABLE]
    if environment.get("SLURM_CONF") == str(layout.slurm_conf):
        return environment.get("SLURMD_NODENAME")
    return None


def _runs(seen: Seen, programs: tuple[str, ...]) -> bool:
    program = processes.program_of(seen.id.pid)
    return any(program == name or program.startswith(f"{name}-") for name in programs)
