"""What the workers of one node are started with in one round."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from hpc_elastic import settings
from hpc_elastic.agent import environment, ranks
from hpc_elastic.agent.environment import NodeRound
from hpc_elastic.agent.plan import Plan
from hpc_elastic.locking.passing import persist
from hpc_elastic.rendezvous.record import Round
from hpc_elastic.workers.group import WorkerStart
from hpc_elastic.workers.logs import LogFiles
from hpc_elastic.workers.page import Page


def place_of(plan: Plan, agreed: Round, attempt: int, node: str, page: Page) -> NodeRound:
    """What the workers of this node have in common in one round."""
    return NodeRound(
        run_id=plan.run_id,
        directory=plan.directory,
        attempt=attempt,
        agreed=agreed,
        node=node,
        max_restarts=plan.settings.max_restarts,
        cpus=plan.cpus,
        page=page.env_value(),
        keeps_slurm=plan.keeps_slurm,
        master_address=plan.master_address,
        master_port=plan.master_port,
        virtual_local_rank=plan.virtual_local_rank,
    )


def make_folders(plan: Plan, place: NodeRound, group_rank: int) -> Path:
    """Make the folders of files that the workers write to; gives that of their logs. Raises `OSError`."""
    attempt, number = place.attempt, place.agreed.number
    if plan.log_dir is not None:
        plan.directory.keep_logs_in(plan.log_dir, attempt)
    logs = plan.directory.logs(attempt, number)
    notice = plan.directory.notice(attempt, number, place.node)
    for folder in (logs, plan.directory.errors(attempt, number), notice.parent):
        persist(partial(folder.mkdir, mode=0o700, parents=True, exist_ok=True))
    if attempt > settings.KEPT_ATTEMPTS and group_rank == 0:
        from hpc_elastic.agent import old_files  # few runs live so long

        old_files.remove(plan.directory, attempt - settings.KEPT_ATTEMPTS)
    return logs


def starts_of(
    plan: Plan, place: NodeRound, of_node: tuple[ranks.WorkerRanks, ...], logs: Path
) -> list[WorkerStart]:
    """What each of them is started with; `logs` is the folder of their log files."""
    shares = _shares(plan, len(of_node))
    starts = []
    for each, cpus in zip(of_node, shares, strict=True):
        files = LogFiles.of(logs, each.global_rank)
        env = environment.of_worker(plan.environment, place, each)
        starts.append(WorkerStart(each.local_rank, each.global_rank, env, files.out, files.err, cpus))
    return starts


def _shares(plan: Plan, workers: int) -> Sequence[frozenset[int] | None]:
    if not plan.splits_cpus:
        return [None] * workers
    from hpc_elastic.agent.cpu_shares import cpu_shares  # few ask for it

    return cpu_shares(workers)
