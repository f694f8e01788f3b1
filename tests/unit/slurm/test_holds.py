"""A job that will not start by itself is not just queued."""

from __future__ import annotations

import pytest

from hpc_elastic.slurm.holds import explain


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("JobHeldUser", "held by its owner; release it with `scontrol release 7_2`"),
        ("JobHeldAdmin", "only an administrator"),
        ("launch_failed_requeued_held", "prolog"),
        ("launch failed requeued held", "prolog"),
        ("(launch failed requeued held)", "prolog"),
        ("user_env_retrieval_failed_requeued_held", "--export=NONE"),
        ("BeginTime", "scontrol update JobId=7_2 StartTime=now"),
        ("PartitionConfig", "cancel it and ask for less"),
        ("PartitionTimeLimit", "scontrol show partition"),
        ("ReqNodeNotAvail,_UnavailableNodes:n1", "down, drained or reserved"),
    ],
)
def test_a_reason_is_explained_with_who_can_change_it(reason: str, words: str) -> None:
    assert words in explain(reason, "7_2")


@pytest.mark.parametrize("reason", ["Priority", "Resources", "None", ""])
def test_the_plain_queue_needs_no_explanation(reason: str) -> None:
    assert explain(reason, "7") == ""
