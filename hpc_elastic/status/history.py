"""What the events of a run say about its progress and its agents, as far as they can be read."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from hpc_elastic import events

TAIL_BYTES: Final = 64 * 1024
_BEGUN: Final = "STARTING"  # the first word on each worker of a round


@dataclass(frozen=True)
class Mark:
    """One line of progress of one node: highest step begun, highest step saved, seconds of its longest save,
    and the step that it began the round with (-1: unknown).

    `at_s` is wall time since 1970 of the node's host, for people.
    """

    node: str
    attempt: int
    round: int
    at_s: float
    step: int
    saved_step: int
    save_s: float
    first_step: int = -1


@dataclass(frozen=True)
class Word:
    """One state that an agent or a worker came to; `rank` is -1 for the agent itself."""

    node: str
    attempt: int
    round: int
    at_s: float
    state: str
    rank: int
    exit_code: int | None
    error: str


@dataclass(frozen=True)
class History:
    """All that was found, in the order of time. Lines that cannot be read are left out."""

    marks: tuple[Mark, ...] = ()
    words: tuple[Word, ...] = field(default=())

    def steps_of_round(self, number: int) -> tuple[int, int] | None:
        """The first and the last step of a round, None where none was told."""
        marks = [mark for mark in self.of_round(number) if mark.step >= 0]
        firsts = [mark.first_step for mark in marks if mark.first_step >= 0]
        if not marks:
            return None
        return min([marks[0].step, *firsts]), max(mark.step for mark in marks)

    def of_round(self, number: int) -> tuple[Mark, ...]:
        """The progress in one round."""
        return tuple(mark for mark in self.marks if mark.round == number)


def read(run_dir: Path, *, tail_bytes: int | None = None) -> History:
    """The events in the run directory; with `tail_bytes` only the last ones of each node."""
    marks: list[Mark] = []
    words: list[Word] = []
    for path in sorted((run_dir / "events").glob("*.jsonl")):
        node = path.name.removesuffix(".jsonl").removesuffix(".old")
        for body in _parsed(_lines(path, tail_bytes)):
            found = _of(body, node)
            if isinstance(found, Mark):
                marks.append(found)
            elif found is not None:
                words.append(found)
    return History(
        tuple(sorted(marks, key=lambda one: one.at_s)), tuple(sorted(words, key=lambda one: one.at_s))
    )


def longest_save_s(run_dir: Path) -> float:
    """The longest save for a stop that the newest events of each node tell of; 0.0 where none does."""
    return max((mark.save_s for mark in read(run_dir, tail_bytes=TAIL_BYTES).marks), default=0.0)


def longest_start_s(run_dir: Path) -> float:
    """How long workers took from their start to the first step that they told; 0.0 where none has told one.

    By the newest events of each node, and the longest of all rounds in them.
    """
    told = read(run_dir, tail_bytes=TAIL_BYTES)
    begun: dict[tuple[str, int], float] = {}
    for word in told.words:
        if word.state == _BEGUN:
            begun.setdefault((word.node, word.round), word.at_s)
    took: dict[tuple[str, int], float] = {}
    for mark in told.marks:
        place = (mark.node, mark.round)
        if place in begun:
            took.setdefault(place, mark.at_s - begun[place])
    return max((0.0, *took.values()))


def _lines(path: Path, tail_bytes: int | None) -> list[bytes]:
    try:
        with path.open("rb") as file:
            if tail_bytes is not None:
                file.seek(0, 2)
                file.seek(max(0, file.tell() - tail_bytes))
            return file.read().splitlines()
    except OSError:
        return []


def _parsed(lines: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    for line in lines:
        try:
            body = json.loads(line)
        except (ValueError, RecursionError):
            continue  # cut by the tail, or by a host that died
        if isinstance(body, dict) and isinstance(body.get("metadata"), dict):
            yield body


def _of(body: dict[str, Any], node: str) -> Mark | Word | None:
    about = body["metadata"]
    try:
        at_s = float(body["timestamp"]) / 1000
        attempt, round_number = int(about.get("attempt") or 0), int(about.get("round") or 0)
        if body.get("name") == events.PROGRESS:
            step, saved = int(about["step"]), int(about["saved_step"])
            first = int(about.get("first_step", step))
            return Mark(node, attempt, round_number, at_s, step, saved, float(about["save_s"]), first)
        rank = about.get("global_rank")
        return Word(
            node,
            attempt,
            round_number,
            at_s,
            str(about["state"]),
            -1 if rank is None else int(rank),
            None if about.get("exit_code") is None else int(about["exit_code"]),
            str(about.get("raw_error") or ""),
        )
    except (KeyError, TypeError, ValueError):
        return None
