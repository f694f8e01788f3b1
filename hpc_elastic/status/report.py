"""A run as one page of HTML: where its time went, what each node did when, and why things ended.

Pure: from what was read to text. The page holds its style and its drawing, loads nothing and runs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Final

from hpc_elastic.agent.rundir import RunDirectory
from hpc_elastic.rendezvous.record import Cause, End
from hpc_elastic.status import render, timeline
from hpc_elastic.status.durations import in_words
from hpc_elastic.status.endings import how_ended
from hpc_elastic.status.goodput import MEANINGS, Goodput, Kind
from hpc_elastic.status.history import History
from hpc_elastic.status.report_style import STYLE
from hpc_elastic.status.snapshot import AttemptSnapshot, RoundSnapshot, RunSnapshot
from hpc_elastic.status.times import shown, wall_s

_LOSSES: Final = frozenset({Cause.MEMBER_LOST, Cause.MEMBER_LEFT})


def html(run: RunSnapshot, history: History, spent: Goodput) -> str:
    """The page of one run."""
    name = run.run_id or run.run_dir.name
    parts = [
        f"<h1>{escape(name)}</h1>",
        f'<p class="state">{escape(render.summary(run))}</p>',
        f'<p class="dim">{escape(str(run.run_dir))}<br><code>{escape(" ".join(run.command))}</code></p>',
        *_time(spent),
        *_section("Timeline", timeline.svg(run, history, spent) if spent.stretches else ""),
        *_section("What went wrong", _faults(run)),
        *_section("Starts of the job", _attempts(run)),
        *_section("Rounds", _rounds(run, history)),
        *_section("Records that could not be read", _list(run.problems)),
    ]
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(name)}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{STYLE}</style></head>\n<body>\n'
        + "\n".join(parts)
        + "\n</body></html>\n"
    )


def _section(title: str, content: str) -> tuple[str, ...]:
    return (f"<h2>{escape(title)}</h2>", content) if content else ()


def _list(lines: Sequence[str]) -> str:
    return "".join(f"<p><code>{escape(line)}</code></p>" for line in lines)


def _time(spent: Goodput) -> Iterable[str]:
    if not spent.stretches:
        return
    yield "<h2>Where the time went</h2>"
    yield (
        f"<p>{in_words(spent.elapsed_s)}, {100 * spent.share:.1f} % of it useful. The kinds add up to the "
        "elapsed time.</p>"
    )
    shares = [(kind, spent.seconds(kind)) for kind in Kind]
    bars = (
        f'<span class="{kind.value}" style="flex:{seconds:.3f}" title="{kind.value} '
        f'{in_words(seconds)}"></span>'
        for kind, seconds in shares
        if seconds > 0
    )
    yield f'<div class="bar">{"".join(bars)}</div>'
    rows = (
        (
            f'<span class="swatch {kind.value}"></span>{kind.value}',
            in_words(seconds),
            f"{100 * seconds / spent.elapsed_s:.1f} %",
            escape(MEANINGS[kind]),
        )
        for kind, seconds in shares
    )
    yield _table(("", "time", "share", ""), rows)


def _faults(run: RunSnapshot) -> str:
    ends = [(one, one.end) for one in run.rounds if one.end is not None]
    rows = [_fault(one, end, run) for one, end in ends if end.cause.is_failure or end.cause in _LOSSES]
    return _table(("round", "when", "where", "what", "counted as", "output"), rows) if rows else ""


def _fault(found: RoundSnapshot, end: End, run: RunSnapshot) -> tuple[str, ...]:
    node = next((member.name for member in found.members if member.node == end.node), end.node)
    where = f"{node}, rank {end.rank}" if end.rank >= 0 else node
    log = RunDirectory(run.run_dir).logs(found.attempt, found.number) / f"{end.rank}.err"
    counted = found.settled.cause.value if found.settled else end.cause.value
    step = f" at step {end.step}" if end.step >= 0 else ""
    return (
        str(found.number),
        _clock(end.created_at),
        escape(where),
        escape(f"{end.cause.value}{step}: {end.message}"),
        escape(counted),
        f"<code>{escape(str(log.relative_to(run.run_dir)))}</code>" if end.rank >= 0 else "",
    )


def _attempts(run: RunSnapshot) -> str:
    rows = [_attempt(run, one) for one in run.attempts]
    return _table(("start", "job", "began", "told to stop", "ended", "requeue"), rows) if rows else ""


def _attempt(run: RunSnapshot, one: AttemptSnapshot) -> tuple[str, ...]:
    why = one.why_stopped
    job = f"{one.start.job_id}" + (f" of {one.start.cluster}" if one.start.cluster else "")
    return (
        str(one.number),
        escape(job),
        _clock(one.start.started_at),
        escape(why.reason.value) if why else "",
        escape(how_ended(run, one)),
        "asked" if one.requeues else "",
    )


def _rounds(run: RunSnapshot, history: History) -> str:
    rows = [_round(one, history) for one in run.rounds if one.has_started]
    head = ("round", "start", "began", "nodes", "workers", "steps", "ended")
    return _table(head, rows, numbers=(3, 4)) if rows else ""


def _round(one: RoundSnapshot, history: History) -> tuple[str, ...]:
    steps = history.steps_of_round(one.number)
    ended = one.settled.cause.value if one.settled else one.end.cause.value if one.end else "runs"
    return (
        str(one.number),
        str(one.attempt),
        _clock(one.verdict.created_at if one.verdict else ""),
        str(len(one.members)),
        str(one.proposal.world_size),
        f"{steps[0]} to {steps[1]}" if steps is not None else "",
        escape(ended),
    )


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], numbers: Sequence[int] = ()) -> str:
    """Cells are HTML already."""

    def cells(tag: str, row: Sequence[str]) -> str:
        return "".join(
            f'<{tag} class="number">{cell}</{tag}>' if at in numbers else f"<{tag}>{cell}</{tag}>"
            for at, cell in enumerate(row)
        )

    body = "\n".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    return f"<table><tr>{cells('th', head)}</tr>\n{body}</table>"


def _clock(text: str) -> str:
    at_s = wall_s(text)
    return escape(text) if at_s is None else shown(at_s)
