"""One thing that was found, what it means for a run, and what to type."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum


class Level(str, Enum):
    """How much it matters."""

    FINE = "fine"
    NOTE = "note"  # good to know; a run copes with it
    PROBLEM = "problem"  # a run would fail or lose work


@dataclass(frozen=True)
class Finding:
    """`check` names what was looked at; `do` is empty where nothing has to be done."""

    check: str
    level: Level
    fact: str
    meaning: str
    do: str = ""
    nodes: tuple[str, ...] = ()


def merged(by_node: Sequence[tuple[str, Sequence[Finding]]]) -> list[Finding]:
    """The findings of several nodes, those that all of them have said once, in the order of the first."""
    said: dict[Finding, list[str]] = {}
    for node, findings in by_node:
        for one in findings:
            said.setdefault(one, []).append(node)
    return [
        Finding(one.check, one.level, one.fact, one.meaning, one.do, tuple(nodes))
        for one, nodes in sorted(said.items(), key=lambda item: _place(item[0], by_node))
    ]


def _place(one: Finding, by_node: Sequence[tuple[str, Sequence[Finding]]]) -> tuple[int, str]:
    """Where the check stands in the list of a node that has it."""
    places = [
        [each.check for each in findings].index(one.check) for _, findings in by_node if one in findings
    ]
    return min(places), one.fact
