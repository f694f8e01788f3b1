"""What the failures of a run have in common, and what follows: pure, from ends that are settled.

Three things follow beside the budget: a pause before the next round (`pause_s`), an end where no restart
can help (`is_incurable`, `History.alike`), and nodes that are left out (`flapping`).
"""

from __future__ import annotations

import re
from typing import Final

from hpc_elastic.rendezvous import keys
from hpc_elastic.rendezvous.history import History, Strike
from hpc_elastic.rendezvous.record import Cause, End, Round
from hpc_elastic.rendezvous.seen import RoundView
from hpc_elastic.rendezvous.standing import Settings
from hpc_elastic.settings import LONGEST_BACKOFF_S, QUICK_FAILURE_S
from hpc_elastic.values import replace

# Ranks, ports, addresses, steps: the same failure comes with other ones.
_VARYING: Final = re.compile(r"0x[0-9a-fA-F]+|\d+")
_FAULT_CHARS: Final = 200
_NOT_A_PROGRAM: Final = ("SyntaxError", "IndentationError", "TabError")
_MISSING: Final = "ModuleNotFoundError"
_NOT_THERE: Final = ("FileNotFoundError", "PermissionError", "OSError")
_NOT_THERE_STATUS: Final = frozenset({2, 126, 127})  # as Python and shells have it for a program


def fault_of(end: End) -> str:
    """A failure as it is compared with others: its status and its first line, without the numbers in it.

    Neither node nor rank belongs to it: the same bug strikes whoever comes first.
    """
    return f"{end.exit_code}: {_VARYING.sub('#', end.message.partition(chr(10))[0])[:_FAULT_CHARS]}"


def history_after(view: RoundView) -> History:
    """The history of the run when the round after `view` begins."""
    if view.proposal is None:
        return History()
    known = _with_stop(view.proposal.history, view)
    if view.settled is None:
        return known
    if view.settled.cause.is_failure and view.end is not None:
        struck = _struck(known, _name(view.proposal, view.settled.node), failures=1)
        return _with_failure(struck, view.end)
    is_shared = keys.attempt_of(view.settled.node) in view.proposal.shared
    if view.settled.cause is Cause.MEMBER_LOST and not is_shared:
        # Of jobs that share a run a node is lost whenever its job is taken away without a warning.
        return _struck(known, _name(view.proposal, view.settled.node), losses=1)
    return known


def _with_stop(known: History, view: RoundView) -> History:
    """An agreed stop beyond what was reached before is progress: what stopped there has saved."""
    step = view.stop.step - 1 if view.stop is not None else -1
    return replace(known, reached=step, alike=0, in_vain=0) if step > known.reached else known


def _with_failure(known: History, end: End) -> History:
    fault, reached = fault_of(end), max(known.reached, end.step)
    if has_got_further(known, end):
        return replace(known, reached=reached, fault=fault, alike=1, in_vain=1)
    alike = known.alike + 1 if fault == known.fault else 1
    return replace(known, reached=reached, fault=fault, alike=alike, in_vain=known.in_vain + 1)


def has_got_further(known: History, end: End) -> bool:
    """Whether the run had got further than ever before when it failed.

    By its steps, where its ranks tell them. Where they never did, by the time: what fails soon after its
    start has done nothing.
    """
    if end.step > known.reached:
        return True
    return known.reached < 0 and not 0.0 <= end.ran_s < QUICK_FAILURE_S


def _struck(known: History, name: str, *, failures: int = 0, losses: int = 0) -> History:
    old = {strike.name: strike for strike in known.strikes}
    mine = old.get(name, Strike(name))
    old[name] = Strike(name, mine.failures + failures, mine.losses + losses)
    return replace(known, strikes=tuple(old[each] for each in sorted(old)))


def _name(proposal: Round, node: str) -> str:
    """The node's name, which outlives its agent and its attempt."""
    return next((member.name for member in proposal.members if member.node == node), node)


def pause_s(history: History, base_s: float) -> float:
    """How long the next round waits after the last failure: not after a first one, then ever longer."""
    if history.in_vain < 2 or base_s <= 0.0:
        return 0.0
    doublings = min(history.in_vain - 2, 30)
    return float(min(LONGEST_BACKOFF_S, base_s * 2**doublings))


def flapping(history: History, limit: int) -> tuple[str, ...]:
    """The nodes that have ended `limit` rounds or more, each at least twice as many as any other node."""
    if limit <= 0:
        return ()
    return tuple(
        one.name
        for one in history.strikes
        if one.total >= limit
        and all(one.total >= 2 * other.total for other in history.strikes if other != one)
    )


def suspects(view: RoundView, settings: Settings) -> tuple[str, ...]:
    """The names of nodes that the round after `view` does without, if it can."""
    if view.proposal is None:
        return ()
    found = flapping(history_after(view), settings.node_failures)
    return tuple(sorted({*view.proposal.left_out, *found}))


def is_incurable(end: End, proposal: Round) -> bool:
    """Whether a restart would fail in the same way for certain.

    What cannot be parsed is so for every rank and every time. A module, a script or a program may be
    missing on one node alone, or for a moment: that counts only at the very start of a run, which has
    nothing to lose.
    """
    kind = end.message.partition(":")[0]
    if end.cause is not Cause.WORKER_FAILED or end.step >= 0:
        return False
    if kind in _NOT_A_PROGRAM:
        return True
    is_first = not proposal.failures and not proposal.changes and proposal.history == History()
    is_absent = kind == _MISSING or (kind in _NOT_THERE and end.exit_code in _NOT_THERE_STATUS)
    return is_first and is_absent and 0.0 <= end.ran_s < QUICK_FAILURE_S
