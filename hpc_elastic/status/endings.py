"""Why each start of a run's job ended. Pure: from the record, and no more than it says."""

from __future__ import annotations

from collections import Counter
from typing import Final

from hpc_elastic.rendezvous.record import GUESTS, NodeState
from hpc_elastic.status.snapshot import AttemptSnapshot, RunSnapshot

DONE: Final = "done"
WITHOUT_A_WORD: Final = "without a word: it was killed, or all its nodes were lost"


def how_ended(run: RunSnapshot, attempt: AttemptSnapshot) -> str:
    """The cause in a few words, with what its nodes left behind; empty while it may still be there."""
    closing = next((one for one in reversed(run.closings) if one.attempt == attempt.number), None)
    if closing is not None:
        where = f" (rank {closing.rank} on {closing.node})" if closing.node and closing.rank >= 0 else ""
        return DONE if closing.succeeded else f"failed{where}: {closing.message}"
    left = [one for one in run.presences if one.attempt == attempt.number and one.state is NodeState.LEFT]
    if not _is_over(run, attempt, len(left)):
        return ""
    outcomes = ", ".join(sorted({one.outcome.value for one in left if one.outcome is not None}))
    if attempt.why_stopped is not None:
        return attempt.why_stopped.reason.in_words + (f", {outcomes}" if outcomes else "")
    reasons = "; ".join(sorted({one.reason for one in left if one.reason}))
    return ": ".join(filter(None, (outcomes, reasons))) or WITHOUT_A_WORD


def earlier_ends(run: RunSnapshot) -> Counter[str]:
    """How often the whole job ended by which cause before its newest start; no budget pays for these."""
    found: Counter[str] = Counter()
    for one in run.attempts[:-1]:
        ended = how_ended(run, one)
        if not ended or ended == DONE or one.start.share == GUESTS:
            continue
        why = one.why_stopped
        found[ended.partition(":")[0].partition(" (")[0] if why is None else why.reason.in_words] += 1
    return found


def _is_over(run: RunSnapshot, attempt: AttemptSnapshot, left: int) -> bool:
    """Whether nobody of it is there: all have left, or the job has started again without them."""
    here = sum(one.attempt == attempt.number for one in run.presences)
    if here and left == here:
        return True
    # Jobs that share a run live side by side.
    return not attempt.start.share and any(
        one.number > attempt.number and not one.start.share for one in run.attempts
    )
