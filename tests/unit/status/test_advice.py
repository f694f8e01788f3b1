"""What a person may do next, for every way a run can stand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hpc_elastic.rendezvous.record import Cause, Closed, End, NodeState, Outcome, Reason, Requeue
from hpc_elastic.status.advice import next_move
from hpc_elastic.status.snapshot import AttemptSnapshot, RunSnapshot
from tests.unit.status.test_render import DRAIN, MEMBERS, NOTICE, RUN, RUNNING, STARTED, presence

GONE = tuple(presence(m.node, m.name, NodeState.LEFT, Outcome.SAVED) for m in MEMBERS)
FAILED = Closed(2, 1, False, 1, 42, "rank 2 failed", "", "w")
RANK_2 = End(1, Cause.WORKER_FAILED, MEMBERS[1].node, 2, 42, "", 7, "", "w")
HUNG = replace(RANK_2, cause=Cause.NO_PROGRESS)
CANCELLED = AttemptSnapshot(STARTED, notice=replace(NOTICE, reason=Reason.CANCELLED))
BY_HAND = AttemptSnapshot(replace(STARTED, cluster="local"), notice=NOTICE)
REQUEUED = AttemptSnapshot(STARTED, notice=NOTICE, requeues=(Requeue(1, 1, "71", "", "w"),))


@pytest.mark.parametrize(
    ("run", "advice"),
    [
        (RunSnapshot(RUN.run_dir), "squeue --me; if it is not there, submit it again with --run-dir"),
        (RUN, "hpc-elastic logs hpc-71 -f"),
        (replace(RUN, rounds=(replace(RUNNING, drain=DRAIN),)), "wait, the workers are saving"),
        (
            replace(RUN, attempts=(REQUEUED,), presences=GONE),
            "comes back by itself: squeue -j 71; if it is not there",
        ),
        (replace(RUN, presences=GONE), "if it is not there, submit it again with --run-dir /runs/hpc-71"),
        (replace(RUN, attempts=(BY_HAND,), presences=GONE), "to go on, start it again with --run-dir /runs/"),
        (
            replace(RUN, attempts=(BY_HAND,), closings=(FAILED,), rounds=(replace(RUNNING, end=RANK_2),)),
            "--attempt 1; then start it again with --run-dir",
        ),
        (replace(RUN, attempts=(CANCELLED,), presences=GONE), "to go on, submit it again with --run-dir"),
        (replace(RUN, closings=(replace(FAILED, succeeded=True),)), "checkpoints and results are in"),
        (replace(RUN, closings=(FAILED,)), "hpc-elastic report hpc-71"),
        (
            replace(RUN, closings=(FAILED,), rounds=(replace(RUNNING, end=RANK_2),)),
            "hpc-elastic logs hpc-71 --rank 2 --attempt 1; then submit it again",
        ),
        (
            replace(RUN, closings=(FAILED,), rounds=(replace(RUNNING, end=HUNG),)),
            "hpc-elastic logs hpc-71 --rank 2 --attempt 1; then submit it again",
        ),
    ],
)
def test_the_next_move_says_what_to_type(run: RunSnapshot, advice: str) -> None:
    assert advice in next_move(run)


def test_the_next_move_calls_the_run_what_leads_to_it_from_here() -> None:
    assert "hpc-elastic logs /runs/hpc-71 -f" in next_move(RUN, "/runs/hpc-71")
