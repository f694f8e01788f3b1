"""What changed between two standings, as inputs of the agent's machine."""

from __future__ import annotations

from typing import Final

from hpc_elastic.agent.inputs import (
    DrainSeen,
    Input,
    NoticeSeen,
    RecordFailed,
    RoundEnded,
    RoundMissed,
    RoundStarted,
    RunClosed,
    StopKnown,
)
from hpc_elastic.rendezvous.record import Closed, Drain, Notice, Scope
from hpc_elastic.rendezvous.standing import Standing
from hpc_elastic.values import dataclass, replace


@dataclass(frozen=True)
class Told:
    """What of the standings the machine has been told."""

    round: int = 0
    is_drained: bool = False
    is_stop_known: bool = False
    is_ended: bool = False
    notice: Notice | None = None
    is_closed: bool = False
    is_lost: bool = False


NOTHING: Final = Told()


def since(told: Told, standing: Standing) -> tuple[Told, tuple[Input, ...]]:
    """The inputs that `standing` adds to what was told, and what has been told with them.

    A closing comes first, for it beats all; a notice before the round, so that nobody starts
    workers only to stop them; then what happens to a round, in its order; an error last.
    """
    inputs: list[Input] = []
    told = _of_the_run(told, standing, inputs)
    told = _of_the_round(told, standing, inputs)
    if standing.error is not None and not told.is_lost:
        told = replace(told, is_lost=True)
        inputs.append(RecordFailed(int(standing.error.exit_code), str(standing.error)))
    return told, tuple(inputs)


def concerns(notice: Notice, node: str) -> bool:
    """Whether `notice` asks `node` to go."""
    return notice.scope is Scope.RUN or notice.node == node


def leaves(drain: Drain, node: str) -> bool:
    """Whether `node` is to go after this drain."""
    return drain.everybody or node in drain.leaving


def _of_the_run(told: Told, standing: Standing, inputs: list[Input]) -> Told:
    closed, notice = standing.closed, standing.notice
    if closed is not None and not told.is_closed:
        told = replace(told, is_closed=True)
        inputs.append(
            RunClosed(closed.succeeded, closed.exit_code, closed.message, _elsewhere(closed, standing))
        )
    if notice is not None and notice != told.notice:
        is_first = told.notice is None
        told = replace(told, notice=notice)
        if concerns(notice, standing.node):
            # Where a node was lost, or foresees its time limit, there is no signal to be explained.
            asks = is_first and bool(notice.signal) and notice.writer == standing.node
            inputs.append(_notice_seen(notice, standing.notice_seen_at_s, ask=asks))
    return told


def _elsewhere(closed: Closed, standing: Standing) -> str:
    agreed, rank = standing.round, standing.rank
    if agreed is None or rank is None or not closed.node or agreed.members[rank].name == closed.node:
        return ""
    return f"rank {closed.rank} on {closed.node}"


def _notice_seen(notice: Notice, seen_at_s: float | None, *, ask: bool) -> NoticeSeen:
    deadline_s = (seen_at_s or 0.0) + notice.seconds_left
    return NoticeSeen(notice.reason, deadline_s, ask)


def _of_the_round(told: Told, standing: Standing, inputs: list[Input]) -> Told:
    agreed, drain, end = standing.round, standing.drain, standing.end
    if agreed is None:
        return told
    if agreed.number != told.round:
        told = replace(told, round=agreed.number, is_drained=False, is_stop_known=False, is_ended=False)
        if end is None and drain is None:
            inputs.append(RoundStarted(agreed.number))
            return told
        is_leaving = drain is not None and leaves(drain, standing.node)
        inputs.append(RoundMissed(agreed.number, ended=end is not None, leaving=is_leaving))
        # Whatever else happens to a round that we have skipped is not for us.
        return replace(told, is_drained=True, is_stop_known=True, is_ended=True)
    if drain is not None and not told.is_drained:
        told = replace(told, is_drained=True)
        deadline_s = (standing.drain_seen_at_s or 0.0) + drain.seconds_left
        is_leaving = leaves(drain, standing.node)
        inputs.append(DrainSeen(drain.reason, deadline_s, is_leaving))
    if standing.stop_step is not None and not told.is_stop_known:
        told = replace(told, is_stop_known=True)
        inputs.append(StopKnown(standing.stop_step))
    if end is not None and not told.is_ended:
        told = replace(told, is_ended=True)
        inputs.append(RoundEnded(end.cause, end.message))
    return told
