"""What is left of the user's quota where runs are kept, as the file system's own tool says."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hpc_elastic.doctor.finding import Finding, Level
from hpc_elastic.slurm import commands
from hpc_elastic.slurm.commands import Runner

_CHECK: Final = "quota"
_LITTLE_BYTES: Final = 1 << 30
_FEW_FILES: Final = 10_000
_WORDS_OF_ONE: Final = 9  # file system; used, soft, hard, grace in KiB; the same of files


@dataclass(frozen=True)
class Allowance:
    """What is used of what is allowed; `allowed` 0: without a limit."""

    used: int
    allowed: int

    @property
    def left(self) -> int:
        """What may still be used."""
        return max(0, self.allowed - self.used)


def look(directory: Path, kind: str, runner: Runner = commands.run) -> Iterator[Finding]:
    """The quota of this user in `directory`, on a file system of the kind `kind`."""
    asked = _question(directory, kind)
    answer = runner(asked, commands.TIMEOUT_S)
    found = parse(answer.output)
    if found is None:
        why = f"there is no {asked[0]}" if answer.is_missing else f"`{' '.join(asked)}` shows none"
        meaning = 'a save that is one too many fails with "disk quota exceeded"; agents wait for room'
        yield Finding(_CHECK, Level.FINE, f"not known: {why}", meaning)
        return
    space, files = found
    yield from _judged(space, _LITTLE_BYTES, _in_gib(space), "checkpoints and logs will not fit", asked)
    yield from _judged(files, _FEW_FILES, _in_files(files), "a run makes some ten files a round", asked)


def parse(output: str) -> tuple[Allowance, Allowance] | None:
    """Bytes and files from the answer of `quota -wp` or `lfs quota`; None where there is no quota in it.

    Both print the same columns (quota-tools 4.06; Lustre 2.12): a long name of a file system stands on a
    line of its own, a value over its limit has a star, one that is not exact is in brackets.
    """
    _, head, rest = output.partition("grace\n")
    words = [word.strip("*[]") for word in rest.split()[:_WORDS_OF_ONE]]
    numbers = [int(word) if word.isdecimal() else -1 for word in words]
    if not head or len(words) < _WORDS_OF_ONE or min(numbers[1:4] + numbers[5:8]) < 0:
        return None
    return _allowance(numbers[1:4], 1024), _allowance(numbers[5:8], 1)


def _allowance(numbers: list[int], unit: int) -> Allowance:
    used, soft, hard = numbers
    return Allowance(used * unit, (hard or soft) * unit)


def _question(directory: Path, kind: str) -> tuple[str, ...]:
    if kind == "lustre":
        return ("lfs", "quota", "-u", str(os.getuid()), str(directory))
    top = next(each for each in (directory, *directory.parents) if each.is_mount() or each == each.parent)
    return ("quota", "-w", "-p", "-f", str(top))


def _judged(
    found: Allowance, little: int, shown: str, meaning: str, asked: tuple[str, ...]
) -> Iterator[Finding]:
    if not found.allowed:
        yield Finding(_CHECK, Level.FINE, f"{shown}, without a limit", "a run may keep what it wants")
    elif found.left < little:
        yield Finding(_CHECK, Level.PROBLEM, shown, meaning, " ".join(asked))
    else:
        yield Finding(_CHECK, Level.FINE, shown, "old checkpoints are removed, logs and records stay")


def _in_gib(found: Allowance) -> str:
    if not found.allowed:
        return f"{found.used / 2**30:.3g} GiB are used"
    return f"{found.left / 2**30:.3g} of {found.allowed / 2**30:.3g} GiB are left"


def _in_files(found: Allowance) -> str:
    return (
        f"{found.left} of {found.allowed} files are left" if found.allowed else f"{found.used} files are used"
    )
