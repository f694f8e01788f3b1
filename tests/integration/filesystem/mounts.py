"""One directory, and two mounts of it that behave as they are told."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from hpc_elastic.testing.passthrough.faults import MountFaults
from hpc_elastic.testing.passthrough.mount import Mount, mounted

NAMES_S = 30.0
CACHING = MountFaults.caching(NAMES_S, listings_s=NAMES_S)
# Two seconds, and the rest is for a busy machine. Were names of any account, it took as long as theirs.
SEEN_WITHIN_S = NAMES_S / 2


@dataclass(frozen=True)
class Pair:
    """`source` is the directory itself, `one` and `other` show it."""

    source: Path
    one: Mount
    other: Mount

    def paths(self, name: str) -> tuple[Path, Path]:
        """The same name, as both mounts show it."""
        return self.one.path / name, self.other.path / name

    def change(self, faults: MountFaults) -> None:
        for mount in (self.one, self.other):
            mount.change(faults)


@contextmanager
def two_mounts(folder: Path, faults: MountFaults) -> Iterator[Pair]:
    """Both are unmounted when the block is left."""
    source = folder / "source"
    source.mkdir(mode=0o700)
    with mounted(source, folder / "one", faults) as one, mounted(source, folder / "other", faults) as other:
        yield Pair(source, one, other)
