"""How often in a row a run was started again, for lost nodes or at its time limit, and came no further."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from hpc_elastic.agent.rundir import RunDirectory
from hpc_elastic.rendezvous import keys
from hpc_elastic.rendezvous.record import Attempt, Outcome, Reason
from hpc_elastic.status.history import History, Mark
from hpc_elastic.status.snapshot import AttemptSnapshot, RunSnapshot

_DEEPEST: Final = 3
_KEPT: Final = frozenset({Outcome.SAVED, Outcome.DONE})
_MOST_FILES: Final = 10_000
_LIMITED: Final = frozenset({Reason.TIME_LIMIT})
_NEWEST: Final = frozenset({Reason.TIME_LIMIT, Reason.UNKNOWN})


def unsaved_losses(run: RunSnapshot, *, of: Attempt | None = None) -> int:
    """How many starts, up to the newest, ended for lost nodes or agents and left nothing new to go on from.

    Only starts of the job of the attempt `of` count where that shares the run with others: those live on.
    A save shows by a file in the run's checkpoint directory that is newer than the start. Both times are
    the file server's. What is saved elsewhere cannot be seen.
    """
    saved_at_s = _newest_s(RunDirectory(run.run_dir).checkpoints)
    count = 0
    for attempt in reversed(run.attempts):
        if of is not None and not _counts(attempt.start, of):
            continue
        if not _is_lost(attempt) or _started_s(run.run_dir, attempt.number) <= saved_at_s:
            break
        count += 1
    return count


def stalled_limits(run: RunSnapshot, told: History, *, of: Attempt | None = None) -> int:
    """How many starts, up to the newest, began at one and the same step and came to their time limit unsaved.

    `told` are the run's events. A start counts only where its ranks told their steps: a script that tells
    none may save where nobody can see it. The next start's first step is the proof that nothing was kept.
    The newest counts too where its agents could not ask why they were told to stop.
    """
    saved_at_s = _newest_s(RunDirectory(run.run_dir).checkpoints)
    count, began_at = 0, None
    for attempt in reversed(run.attempts):
        if of is not None and not _counts(attempt.start, of):
            continue
        first = min((one.first_step for one in told.marks if _is_first(one, attempt)), default=None)
        if first is None or began_at not in (None, first):
            break
        if not _is_limited(run, attempt, _NEWEST if count == 0 else _LIMITED):
            break
        if _started_s(run.run_dir, attempt.number) <= saved_at_s:
            break
        count, began_at = count + 1, first
    return count


def _is_first(mark: Mark, attempt: AttemptSnapshot) -> bool:
    return mark.attempt == attempt.number and mark.first_step >= 0


def _is_limited(run: RunSnapshot, attempt: AttemptSnapshot, reasons: frozenset[Reason]) -> bool:
    """Whether it came to its time limit with a node that had not saved."""
    why = attempt.why_stopped
    outcomes = {one.outcome for one in run.presences if one.attempt == attempt.number}
    # A run forgets the nodes of old attempts: of those the next start's first step says enough.
    return why is not None and why.reason in reasons and (not outcomes or not outcomes <= _KEPT)


def was_cut_off(run: RunSnapshot) -> bool:
    """Whether the newest start was preempted and left before its workers had saved."""
    last = run.last_attempt
    why = None if last is None else last.why_stopped
    if last is None or why is None or why.reason is not Reason.PREEMPTED:
        return False
    return Outcome.UNSAVED in {one.outcome for one in run.presences if one.attempt == last.number}


def _counts(start: Attempt, of: Attempt) -> bool:
    return start.job == of.job if of.share else not start.share


def _is_lost(attempt: AttemptSnapshot) -> bool:
    why = attempt.why_stopped
    return why is None or why.reason is Reason.NODE_FAILURE


def _started_s(run_dir: Path, number: int) -> float:
    with suppress(OSError):
        return (run_dir / "record" / keys.attempt_key(number)).stat().st_mtime
    return 0.0


def _newest_s(folder: Path) -> float:
    newest_s = float("-inf")
    for seen, path in enumerate(_files(folder, _DEEPEST)):
        if seen >= _MOST_FILES:
            break
        with suppress(OSError):
            newest_s = max(newest_s, path.stat().st_mtime)
    return newest_s


def _files(folder: Path, depth: int) -> Iterator[Path]:
    try:
        entries = list(folder.iterdir())
    except OSError:
        return
    for entry in entries:
        if depth > 1 and entry.is_dir() and not entry.is_symlink():
            yield from _files(entry, depth - 1)
        else:
            yield entry
