"""Folders that nobody else can change, whatever the umask of the process says."""

from __future__ import annotations

from pathlib import Path
from typing import Final

_PRIVATE: Final = 0o700
_ABOVE: Final = 0o755


def make_private(path: Path) -> None:
    """The folder `path` with mode 0700, and those above it that are missing, where others may only look.

    `Path.mkdir` gives the missing parents all that the umask leaves: with umask 000 anybody could put
    another folder in the place of this one. What exists keeps its mode. Raises `OSError`.
    """
    _make(path, _PRIVATE)


def _make(path: Path, mode: int) -> None:
    try:
        path.mkdir(mode=mode)
    except FileNotFoundError:
        if path.parent == path:
            raise
        _make(path.parent, _ABOVE)
        path.mkdir(mode=mode, exist_ok=True)
    except OSError:  # some say "read-only" or "no access" of a folder that exists
        if not path.is_dir():
            raise
