"""One submission into a run directory at a time: two jobs of one run would write the same files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from hpc_elastic.errors import UsageError

_NAME: Final = "submitting"
# Longer than a submission can wait for Slurm. Whoever has died meanwhile does not come back.
STALE_S: Final = 600.0


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Hold the claim of `folder`, which exists; `UsageError` where another submission does.

    The claim is a folder: making it asks the file server, also where this client's cache is old. How old
    a claim is is told by the server's own clock.
    """
    claim = folder / _NAME
    if not _is_made(claim) and not (_is_stale(claim) and _is_made(claim)):
        raise UsageError(
            f"another submission into {folder.parent} is under way; wait for it, or give another run_dir; of "
            f"one that was killed {claim} is left, which counts for {STALE_S:.0f} s or until you remove it"
        )
    try:
        yield
    finally:
        with suppress(OSError):
            claim.rmdir()


def _is_made(claim: Path) -> bool:
    try:
        claim.mkdir(mode=0o700)
    except FileExistsError:
        return False
    return True


def _is_stale(claim: Path) -> bool:
    """Whether it is left over; then it is removed."""
    now = claim.with_name(f".{_NAME}-{os.getpid():x}-{os.urandom(4).hex()}")
    now.touch()
    try:
        age_s = now.stat().st_mtime - claim.stat().st_mtime
        if age_s > STALE_S:
            claim.rmdir()
        return age_s > STALE_S
    except FileNotFoundError:  # given back at this moment
        return True
    finally:
        now.unlink()
