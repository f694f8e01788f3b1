"""Records in words, for the stories of simulations and scenarios."""

from __future__ import annotations

from hpc_elastic.rendezvous.record import (
    Attempt,
    Closed,
    Drain,
    End,
    Notice,
    Record,
    Round,
    Settled,
    Stop,
    Verdict,
)


def describe(record: Record) -> str:  # noqa: PLR0911 - a table: one line for each kind
    """One line that says what was recorded, and by whom."""
    match record:
        case Round():
            names = " ".join(member.node for member in record.members)
            return f"proposed by {record.writer} ({record.why}, {record.failures} failures): {names}"
        case Closed():
            how = "done" if record.succeeded else f"exit code {record.exit_code}"
            return f"closed by {record.writer} for attempt {record.attempt}: {how}, {record.message}"
        case Verdict():
            return f"{'started' if record.started else 'abandoned'} by {record.writer}: {record.why}"
        case Drain():
            who = "everybody" if record.everybody else " ".join(record.leaving) or "nobody"
            return f"{record.reason.value}, {record.seconds_left:.0f} s, leaving: {who}, by {record.writer}"
        case Stop():
            return f"at step {record.step}, by {record.writer}"
        case End():
            return f"{record.cause.value}, {record.node}, by {record.writer}: {record.message}"
        case Settled():
            return f"{record.cause.value}, {record.node}, by {record.writer}: {record.why}"
        case Notice():
            return f"{record.reason.value}, {record.scope.value}, {record.seconds_left:.0f} s, {record.node}"
        case Attempt():
            return f"start {record.restart_count} of job {record.job_id} {record.array_task}".rstrip()
        case _:
            return f"{record.TYPE} by {getattr(record, 'writer', '?')}"
