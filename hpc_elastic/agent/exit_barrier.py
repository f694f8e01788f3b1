"""The end of an API agent's round: waiting for the peers, and what follows where one of them has failed."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Final

from hpc_elastic.agent.api import RunResult, WorkerGroup, WorkerState
from hpc_elastic.agent.board import Board, EndCause, RoundEnd

_FIRST_PAUSE_S: Final = 0.01
_LONGEST_PAUSE_S: Final = 1.0


def await_peers(
    board: Board, group: WorkerGroup, timeout_s: float, pause: Callable[[float], None]
) -> RoundEnd | None:
    """The end of the round, once all peers have finished or one has ended it otherwise.

    None where every peer that is missing has given no sign of life for `timeout_s`. A peer that is gone,
    by the rendezvous' word, ends the round as a change of members: its work has to be done again.
    """
    rank = group.group_rank or 0
    board.finish()
    pause_s = _FIRST_PAUSE_S
    while True:
        end = board.end()
        if end is not None:
            return end
        silent = board.silences()
        if not silent:
            return board.end_round(RoundEnd(EndCause.DONE, rank))
        if group.spec.rdzv_handler.num_nodes_waiting() > 0:
            return board.end_round(RoundEnd(EndCause.MEMBERS, rank))
        if min(silent.values()) > timeout_s:
            return None
        pause(pause_s)
        pause_s = min(1.5 * pause_s, _LONGEST_PAUSE_S)


def note_failure(group: WorkerGroup, end: RoundEnd) -> int:
    """Have a failure counted in the run's record, where there is one; the failures of the run by now.

    Where that is impossible the nodes of this round know of it, and nobody else.
    """
    root = end.failure
    rank, exitcode, message = (-1, 1, "") if root is None else (root.global_rank, root.exitcode, root.message)
    with suppress(Exception):
        group.spec.rdzv_handler.note_failure(end.group_rank, rank, exitcode, message)
    return group.restart_count + 1


def failed_by(end: RoundEnd, result: RunResult) -> RunResult:
    """The result of a run that failed: the root cause first, then what failed on this node."""
    failures = dict(result.failures)
    root = end.failure
    if root is not None:
        failures = {root.global_rank: failures.pop(root.global_rank, root), **failures}
    return RunResult(WorkerState.FAILED, {}, failures, result.stdouts, result.stderrs)
