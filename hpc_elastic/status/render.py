"""A run's record as lines for people. Pure: it says what the record says, and no more."""

from __future__ import annotations

from typing import Final

from hpc_elastic.rendezvous.history import Strike
from hpc_elastic.rendezvous.record import NodeState, Presence, Round
from hpc_elastic.status import continuations
from hpc_elastic.status.advice import next_move
from hpc_elastic.status.durations import in_words
from hpc_elastic.status.endings import earlier_ends, how_ended
from hpc_elastic.status.pace import Pace
from hpc_elastic.status.snapshot import AttemptSnapshot, RoundSnapshot, RunSnapshot
from hpc_elastic.status.times import wall_s

# One screen, whatever the size of the run; the whole is in --json and in the report.
MOST_ATTEMPTS: Final = 5
MOST_MEMBERS: Final = 16


def summary(run: RunSnapshot) -> str:
    """How the run stands, in a few words."""
    closed = run.closed
    if closed is not None:
        return "done" if closed.succeeded else f"failed with status {closed.exit_code}: {closed.message}"
    attempt = run.own_attempt
    if attempt is None:
        return "not started"
    if run.has_left:
        outcomes = sorted({each.outcome.value for each in run.present if each.outcome is not None})
        return _stopped(run, attempt, ", ".join(outcomes))
    last = run.last_round
    if last is None or not run.is_of_now(last) or last.end is not None:
        return "nodes are joining"
    if last.drain is not None:
        return f"stopping: {last.drain.reason.value}"
    return f"running on {_counted(len(last.members), 'node')}, {_counted(last.proposal.world_size, 'worker')}"


def _stopped(run: RunSnapshot, attempt: AttemptSnapshot, outcomes: str) -> str:
    away = attempt.stays_away
    if attempt.is_cancelled:
        return f"cancelled ({outcomes}); to go on, submit it again with this run directory"
    if attempt.is_by_hand:
        return f"stopped ({outcomes}); to go on, start it again with this run directory"
    if away is not None:
        return f"stopped ({outcomes}): {away.why}"
    job = continuations.last_of(run, attempt.start.job_id)
    as_what = "the job starts again" if job == attempt.start.job_id else f"job {job} starts in its place"
    return f"stopped ({outcomes}); it goes on when {as_what}"


def lines(run: RunSnapshot, pace: Pace | None = None, now_s: float = 0.0, called: str = "") -> list[str]:
    """The whole run: its pace, attempts, newest round with its nodes, restarts, and what to do next.

    `now_s` is wall time since 1970, for how long ago and how long still; `called` is what the commands it
    names know the run by.
    """
    name = f" ({run.name})" if run.name and run.name != run.run_id else ""
    told = [f"run {run.run_id or run.run_dir.name}{name}: {summary(run)}", f"  directory {run.run_dir}"]
    told += [f"  {line}" for line in (_pace(pace, now_s) if pace is not None else ())]
    told += [f"  {line}" for line in _notice(run, now_s)]
    earlier = len(run.attempts) - MOST_ATTEMPTS
    told += [f"  {_counted(earlier, 'earlier attempt')}: see `hpc-elastic report`"] if earlier > 0 else []
    told += [f"  {_attempt(run, each)}" for each in run.attempts[-MOST_ATTEMPTS:]]
    last = run.last_round
    if last is not None:
        told.append(f"  {_round(last, tells_steps=pace is not None)}")
        members = _members(last, run.presences)
        told += [f"    {line}" for line in members[:MOST_MEMBERS]]
        told += [f"    and {len(members) - MOST_MEMBERS} more"] if len(members) > MOST_MEMBERS else []
        told.append(f"  {_restarts(run, last)}")
        told += [f"  left out: {_struck(last.proposal, name)}" for name in last.proposal.left_out]
    told += [f"  cannot be read: {problem}" for problem in run.problems]
    told.append(f"  next: {next_move(run, called)}")
    return told


def _pace(pace: Pace, now_s: float) -> list[str]:
    rate = "" if pace.steps_per_s is None else f", {pace.steps_per_s:.3g} steps/s"
    told = [f"step {pace.step}{rate}"]
    if pace.saved_step >= 0:
        took = f", took {in_words(pace.save_s)}" if pace.save_s else ""
        told.append(f"last save: step {pace.saved_step}, {in_words(now_s - pace.saved_at_s)} ago{took}")
    return told


def _notice(run: RunSnapshot, now_s: float) -> list[str]:
    """The notice under which the newest attempt is, while somebody of it is there."""
    attempt = run.last_attempt
    why = attempt.why_stopped if attempt else None
    here = [one for one in run.presences if attempt is not None and one.attempt == attempt.number]
    if why is None or run.closed is not None or all(one.state is NodeState.LEFT for one in here):
        return []
    at_s = wall_s(why.created_at)
    left_s = None if at_s is None else at_s + why.seconds_left - now_s
    when = "" if left_s is None else f", {in_words(left_s)} left" if left_s > 0 else ", its time is over"
    return [f"notice: {why.reason.value}{when}"]


def _restarts(run: RunSnapshot, last: RoundSnapshot) -> str:
    failures, changes = last.proposal.failures, last.proposal.changes
    budget = "" if run.max_restarts is None else f" of {run.max_restarts}"
    told = "".join(f", {count} {cause}" for cause, count in earlier_ends(run).most_common())
    return f"restarts: {failures}{budget} after failures, {changes} after changes of membership{told}"


def _attempt(run: RunSnapshot, attempt: AttemptSnapshot) -> str:
    start, why = attempt.start, attempt.why_stopped
    job = f"job {start.job_id}" + (f" of {start.cluster}" if start.cluster else "")
    restarted = f", restart {start.restart_count}" if start.restart_count else ""
    ended = how_ended(run, attempt)
    noticed = f"; told to stop: {why.reason.in_words}" if why is not None and not ended else ""
    over = f"; ended: {ended}" if ended else ""
    requeued = "; requeue asked" if attempt.requeues else ""
    further = next((one.job for one in run.continuations if one.attempt == attempt.number), "")
    if further:
        requeued = f"; goes on as job {further}"
    return f"attempt {attempt.number}, {start.started_at}: {job}{restarted}{noticed}{over}{requeued}"


def _round(found: RoundSnapshot, *, tells_steps: bool) -> str:
    proposal = found.proposal
    text = f"round {found.number} in attempt {found.attempt}, {proposal.created_at}"
    # Ranks without a context stop when they like; what is agreed for them is only that they stop.
    if found.stop is not None and (found.stop.step > 0 or tells_steps):
        text += f"; agreed to stop at step {found.stop.step}"
    if found.settled is not None:
        text += f"; ended: {found.settled.cause.value}"
    elif found.end is not None:
        text += f"; ended: {found.end.cause.value}"
    return text


def _members(found: RoundSnapshot, presences: tuple[Presence, ...]) -> list[str]:
    by_node = {each.node: each for each in presences}
    told, first = [], 0
    for member in found.members:
        last = first + member.slots - 1
        ranks = f"rank {first}" if first == last else f"ranks {first} to {last}"
        presence = by_node.get(member.node)
        told.append(f"{member.name}: {ranks}, {_state(presence)}")
        first += member.slots
    return told


def _state(presence: Presence | None) -> str:
    if presence is None:
        return "nothing known"
    if presence.state is NodeState.LEFT and presence.outcome is not None:
        return f"left ({presence.outcome.value}): {presence.reason}"
    return presence.state.value


def _struck(proposal: Round, name: str) -> str:
    """A node that the run does without, and why."""
    mine = next((one for one in proposal.history.strikes if one.name == name), Strike(name))
    return f"{name}, whose workers ended {_counted(mine.failures, 'round')} and whose loss {mine.losses}"


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
