"""Which files hold the output of a rank, in the order in which it was written.

Where jobs share a run, as the elements of a pool do, each keeps the output of its own ranks under an attempt
of its own, and the numbers of rounds hold the story together: the output of an attempt is that of the
rounds it took part in, whoever kept it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hpc_elastic.agent.rundir import RunDirectory
from hpc_elastic.errors import UsageError

KINDS = ("out", "err")


@dataclass(frozen=True)
class LogFile:
    """One stream (`out` or `err`) of one global rank in one round of one attempt."""

    path: Path
    attempt: int
    round: int
    rank: int
    kind: str


def attempts(run_dir: Path) -> list[int]:
    """The numbers of the attempts that have output, rising."""
    return _numbers(RunDirectory(run_dir).path / "logs")


def resolve(run_dir: Path, attempt: int) -> int:
    """The number of an attempt; a negative one counts from the newest that has output."""
    known = attempts(run_dir)
    return known[attempt] if attempt < 0 and -attempt <= len(known) else attempt


def find(run_dir: Path, *, rank: int | None = 0, attempt: int = -1) -> list[LogFile]:
    """The files of one rank, or of all where `rank` is None: round by round, `out` before `err`.

    Raises `UsageError` where there are none, naming what there is.
    """
    number = resolve(run_dir, attempt)
    rounds = _numbers(run_dir / "logs" / str(number))
    found = [one for one in _files(run_dir, rank) if one.round in rounds] if rounds else []
    if found:
        return found
    folder = run_dir / "logs"
    known = ", ".join(map(str, attempts(run_dir))) or "none yet"
    ranks = sorted({one.rank for one in _files(run_dir, None) if one.round in rounds})
    there = f"; ranks of attempt {number}: {_ranges(ranks)}" if ranks else ""
    who = "a rank" if rank is None else f"rank {rank}"
    raise UsageError(
        f"no output of {who} in attempt {number} below {folder}; attempts with output: {known}{there}"
    )


def since(run_dir: Path, attempt: int, rank: int | None) -> list[LogFile]:
    """The same from the first round of `attempt` on, or of the first later one that has output."""
    later = (number for number in attempts(run_dir) if number >= attempt)
    first = min((n for number in later for n in _numbers(run_dir / "logs" / str(number))), default=None)
    return [] if first is None else [one for one in _files(run_dir, rank) if one.round >= first]


def _files(run_dir: Path, rank: int | None) -> list[LogFile]:
    places = [
        (number, attempt)
        for attempt in attempts(run_dir)
        for number in _numbers(run_dir / "logs" / str(attempt))
    ]
    return [one for number, attempt in sorted(places) for one in _files_of(run_dir, attempt, number, rank)]


def _files_of(run_dir: Path, attempt: int, number: int, rank: int | None) -> Iterator[LogFile]:
    folder = RunDirectory(run_dir).logs(attempt, number)
    for each in _numbers_of_files(folder) if rank is None else [rank]:
        for kind in KINDS:
            path = folder / f"{each}.{kind}"
            if path.is_file():
                yield LogFile(path, attempt, number, each, kind)


def _numbers(folder: Path) -> list[int]:
    try:
        names = [one.name for one in folder.iterdir()]
    except OSError:
        return []
    return sorted(int(name) for name in names if name.isascii() and name.isdecimal())


def _numbers_of_files(folder: Path) -> list[int]:
    stems = {one.stem for one in folder.iterdir() if one.suffix in (".out", ".err")}
    return sorted(int(stem) for stem in stems if stem.isascii() and stem.isdecimal())


def _ranges(numbers: list[int]) -> str:
    """`0 to 3, 7` for 0, 1, 2, 3, 7."""
    told: list[list[int]] = []
    for number in numbers:
        if told and number == told[-1][-1] + 1:
            told[-1].append(number)
        else:
            told.append([number])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]} to {run[-1]}" for run in told)
