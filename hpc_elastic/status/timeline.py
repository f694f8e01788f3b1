"""The drawing of a run: a lane for where its time went, and one for each node. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from typing import Final

from hpc_elastic.rendezvous.record import Cause
from hpc_elastic.status.durations import in_words
from hpc_elastic.status.goodput import Goodput
from hpc_elastic.status.history import History
from hpc_elastic.status.snapshot import RoundSnapshot, RunSnapshot
from hpc_elastic.status.times import shown, wall_s

_WIDTH: Final = 1000
_LEFT: Final = 130
_LANE: Final = 24
_TOP: Final = 30
_TICKS: Final = 6
_MOST_LANES: Final = 64


def svg(run: RunSnapshot, history: History, spent: Goodput) -> str:
    """The timeline; more than 64 nodes are cut off, and the drawing says so."""
    nodes = list(dict.fromkeys(m.name for one in run.rounds if one.has_started for m in one.members))
    shown = nodes[:_MOST_LANES]
    scale = _Scale(spent.begin_s, max(spent.elapsed_s, 0.001))
    lanes = {name: _TOP + (number + 1) * _LANE for number, name in enumerate(shown)}
    height = _TOP + (len(shown) + 2) * _LANE
    drawn = [
        *_axis(scale, height - _LANE),
        *_whole(scale, spent),
        *(piece for name, y in lanes.items() for piece in _node(run, history, scale, name, y)),
        *_notices(run, scale, height - _LANE),
    ]
    if len(nodes) > len(shown):
        drawn.append(
            f'<text x="{_LEFT}" y="{height}" class="dim">and {len(nodes) - len(shown)} more nodes</text>'
        )
    return (
        f'<svg viewBox="0 0 {_WIDTH} {height + 6}" role="img" aria-label="timeline of the run">'
        + "\n".join(drawn)
        + "</svg>"
    )


@dataclass(frozen=True)
class _Scale:
    begin_s: float
    length_s: float

    def x(self, at_s: float) -> float:
        share = min(max((at_s - self.begin_s) / self.length_s, 0.0), 1.0)
        return round(_LEFT + share * (_WIDTH - _LEFT - 10), 2)


def _axis(scale: _Scale, bottom: float) -> Iterator[str]:
    for tick in range(_TICKS + 1):
        at_s = scale.begin_s + scale.length_s * tick / _TICKS
        x = scale.x(at_s)
        text = shown(at_s, "%H:%M:%S")
        yield f'<line class="axis" x1="{x}" x2="{x}" y1="{_TOP - 8}" y2="{bottom}"/>'
        anchor = "end" if tick == _TICKS else "start" if tick == 0 else "middle"
        yield f'<text class="dim" x="{x}" y="14" text-anchor="{anchor}">{text}</text>'


def _whole(scale: _Scale, spent: Goodput) -> Iterator[str]:
    yield _label("run", _TOP)
    for one in spent.stretches:
        title = f"{one.kind.value} {in_words(one.length_s)}"
        yield _box(scale, one.begin_s, one.end_s, _TOP, one.kind.value, title)


def _node(run: RunSnapshot, history: History, scale: _Scale, name: str, y: float) -> Iterator[str]:
    yield _label(name, y)
    for one in run.rounds:
        member = next((each for each in one.members if each.name == name), None)
        if member is None or not one.has_started or one.verdict is None:
            continue
        begin_s = wall_s(one.verdict.created_at)
        end_s = wall_s(one.end.created_at) if one.end else scale.begin_s + scale.length_s
        if begin_s is None or end_s is None:
            continue
        drain_s = wall_s(one.drain.created_at) if one.drain else None
        title = f"round {one.number}, node {one.proposal.group_rank(member.node)} of {len(one.members)}"
        yield _box(scale, begin_s, min(drain_s or end_s, end_s), y, "useful", title)
        if drain_s is not None:
            yield _box(scale, drain_s, end_s, y, "saving", f"{title}: saving")
        if _is_lost(one, member.node):
            yield _cross(scale.x(end_s), y)
    for mark in history.marks:
        if mark.node == name and mark.saved_step >= 0 and mark.save_s > 0:
            x = scale.x(mark.at_s)
            yield (
                f'<circle class="save" cx="{x}" cy="{y + 8}" r="4"><title>saved step {mark.saved_step} in '
                f"{mark.save_s:.1f} s</title></circle>"
            )


def _is_lost(one: RoundSnapshot, node: str) -> bool:
    end = one.end
    return end is not None and end.node == node and (end.cause.is_failure or end.cause is Cause.MEMBER_LOST)


def _notices(run: RunSnapshot, scale: _Scale, bottom: float) -> Iterator[str]:
    for attempt in run.attempts:
        why, first = attempt.why_stopped, attempt.notice
        at_s = wall_s(first.created_at) if first else None
        if why is None or at_s is None:
            continue
        x = scale.x(at_s)
        yield (
            f'<line class="notice" x1="{x}" x2="{x}" y1="{_TOP - 8}" y2="{bottom}"><title>notice: '
            f"{escape(why.reason.value)}</title></line>"
        )
        yield f'<text x="{x + 3}" y="{bottom + 12}">{escape(why.reason.value)}</text>'


def _label(text: str, y: float) -> str:
    short = text if len(text) <= 16 else text[:15] + "…"
    return f'<text x="{_LEFT - 8}" y="{y + 13}" text-anchor="end">{escape(short)}</text>'


def _box(scale: _Scale, begin_s: float, end_s: float, y: float, kind: str, title: str) -> str:
    x = scale.x(begin_s)
    width = max(round(scale.x(end_s) - x, 2), 0.5)
    return (
        f'<rect class="{kind}" x="{x}" y="{y}" width="{width}" height="{_LANE - 8}" rx="2">'
        f"<title>{escape(title)}</title></rect>"
    )


def _cross(x: float, y: float) -> str:
    title = "<title>lost or failed here</title>"
    return f'<path class="lost" d="M{x - 5} {y + 3}l10 10m0 -10l-10 10">{title}</path>'
