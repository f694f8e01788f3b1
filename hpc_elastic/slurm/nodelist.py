"""Slurm's compact node lists (`gpu[01-04,07],login1`), expanded without any Slurm command.

`scontrol show hostnames` gives the same, but a container often has no `scontrol`. The rules were
read off Slurm 22.05.8: the width of a range is that of its first number, several brackets multiply
with the last one fastest, names keep their order and may repeat. Text after the last bracket
(`n[1-2]-ib`), which 22.05 refuses and 24.11 takes, is accepted.
"""

from __future__ import annotations

import re
from itertools import product
from typing import Final

from hpc_elastic.errors import BadEnvironment

MAX_NODES: Final = 65536  # Slurm's own bound on the length of one range

_ITEM = re.compile(r"(?:[^\[\],\s]|\[[^\[\]]*\])+")
_PART = re.compile(r"\[([^\[\]]*)\]|([^\[\]]+)")
_RANGE = re.compile(r"([0-9]+)(?:-([0-9]+))?")
_BETWEEN = re.compile(r"[,\s]+")


class BadNodeList(BadEnvironment):
    """A node list that does not follow Slurm's grammar, or names too many nodes."""

    def __init__(self, *, text: str, fact: str) -> None:
        self.text, self.fact = text, fact
        super().__init__(
            f"node list {text!r}: {fact}; expected names such as n1,n2 or gpu[01-04,07], "
            "compare with `scontrol show hostnames`"
        )


def expand(text: str) -> tuple[str, ...]:
    """The node names of a compact list, in its order; an empty list has none.

    Raises `BadNodeList` for anything else, never a part of the names.
    """
    names: list[str] = []
    at = 0
    while at < len(text):
        if between := _BETWEEN.match(text, at):
            at = between.end()
            continue
        item = _ITEM.match(text, at)
        if item is None:
            raise BadNodeList(text=text, fact=f"unmatched bracket at {text[at:]!r}")
        names.extend(_expand_item(text, item.group(), MAX_NODES - len(names)))
        at = item.end()
    return tuple(names)


def _expand_item(text: str, item: str, room: int) -> list[str]:
    choices: list[tuple[str, ...]] = []
    count = 1
    for part in _PART.finditer(item):
        ranges, literal = part.groups()
        choices.append((literal,) if ranges is None else _expand_ranges(text, ranges))
        count *= len(choices[-1])
        if count > room:
            raise BadNodeList(text=text, fact=f"more than {MAX_NODES} nodes")
    return ["".join(parts) for parts in product(*choices)]


def _expand_ranges(text: str, ranges: str) -> tuple[str, ...]:
    numbers: list[str] = []
    for one in ranges.split(","):
        match = _RANGE.fullmatch(one)
        if match is None:
            raise BadNodeList(text=text, fact=f"[{ranges}] has the range {one!r}, which is not N or N-M")
        first, last = match.group(1), match.group(2) or match.group(1)
        if max(len(first), len(last)) > 18:
            raise BadNodeList(text=text, fact=f"the range {one!r} has a number of more than 18 digits")
        if int(first) > int(last):
            raise BadNodeList(text=text, fact=f"the range {one!r} runs backwards")
        if int(last) - int(first) >= MAX_NODES - len(numbers):
            raise BadNodeList(text=text, fact=f"more than {MAX_NODES} nodes")
        numbers.extend(str(number).zfill(len(first)) for number in range(int(first), int(last) + 1))
    return tuple(numbers)
