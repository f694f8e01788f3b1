"""Why a job that waits will not start by itself, and who can change that."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_RELEASE: Final = "release it with `scontrol release {job}`"
_TOO_MUCH: Final = (
    "it asks for more nodes or time than its partition allows (`scontrol show partition`), and does not "
    "start; cancel it and ask for less"
)
_EXPLAINED: Final[Mapping[str, str]] = {
    "JobHeldUser": f"held by its owner; {_RELEASE}",
    "JobHeldAdmin": "held by an administrator, or requeued too often; only an administrator can release it",
    # After a requeue a job waits for the lifetime of Slurm's credentials.
    "BeginTime": "waits for its begin time; a requeued job about two minutes; its owner may shorten it, "
    "but not in its first seconds: `scontrol update JobId={job} StartTime=now`",
    "launch_failed_requeued_held": f"a prolog or the launch failed on a node, which is drained; {_RELEASE}",
    "job_requeued_in_held_state": f"requeued and held; {_RELEASE}",
    "user_env_retrieval_failed_requeued_held": "the login shell took too long, as --get-user-env and "
    f"--export=NONE need it; {_RELEASE}",
    "DependencyNeverSatisfied": "the job it depends on cannot end as asked; cancel it and submit again",
    "JobArrayTaskLimit": "other elements of its array have their turn first (`--array=...%N`)",
    "PartitionDown": "its partition is down; an administrator has to bring it up",
    "PartitionConfig": _TOO_MUCH,
    "PartitionNodeLimit": _TOO_MUCH,
    "PartitionTimeLimit": _TOO_MUCH,
    "ReqNodeNotAvail": "a node that it needs is down, drained or reserved",
}
_FOREIGN: Final = str.maketrans({" ": "_", "-": "_"})


def explain(reason: str, job: str) -> str:
    """What `Reason` of a waiting job means for its owner; empty where it is only the queue.

    `job` is what Slurm's commands are given.
    """
    name, _, _ = reason.strip("()").partition(",")
    return _EXPLAINED.get(name.translate(_FOREIGN), "").format(job=job)
