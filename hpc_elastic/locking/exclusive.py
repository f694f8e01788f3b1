"""The ways to give a file a name that nobody else has given: of many that try at once, one does.

`LINK`: a hard link to a finished private file. It is atomic on every file system that has it, NFS
included. `FOLDER`, where there are no hard links: a private folder with the finished file in it is
renamed to `<name>~`; a folder is never renamed over one that holds something (POSIX: ENOTEMPTY or
EEXIST). Then the file is copied to its name, by the winner or by any that come later. Both show a
whole file or none, and after a lost reply a second try finds the first one's bytes. An `O_EXCL`
claim would not: whoever dies between its first and its last byte leaves what nobody can finish.

All functions raise `OSError` as the calls below them do.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import Final

Link = Callable[[Path, Path], None]

CLAIM_SUFFIX: Final = "~"
VALUE: Final = "value"
_TAKEN: Final = {errno.ENOTEMPTY, errno.EEXIST}
# What calls say where something does not exist, and not what they say when it fails this time.
NOT_SUPPORTED: Final = {
    errno.EACCES,
    errno.EINVAL,
    errno.EMLINK,
    errno.ENOSYS,
    errno.EOPNOTSUPP,
    errno.EPERM,
    errno.EXDEV,
}


class Way(str, Enum):
    """How exclusive creation is done in a directory."""

    LINK = "link"
    FOLDER = "folder"


def write_new(path: Path, value: bytes, *, flush: bool) -> None:
    """A file that did not exist; `flush`: its bytes are on the disk when this returns."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        rest = memoryview(value)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        if flush:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def by_link(temporary: Path, path: Path, link: Link = os.link) -> bool:
    """Give the file `temporary` the name `path` too; False where that name is taken."""
    try:
        link(temporary, path)
    except FileExistsError:
        return False
    return True


def by_folder(temporary: Path, path: Path) -> bytes:
    """What stands under `path` for ever: the bytes of the file `temporary`, or those of who was first."""
    claim = path.with_name(path.name + CLAIM_SUFFIX)
    folder = temporary.with_name(temporary.name + ".d")
    folder.mkdir(mode=0o700)
    inside = folder / VALUE
    temporary.replace(inside)
    is_first = rename_folder(folder, claim)
    if not is_first:
        remove_folder(folder)
    value = (claim / VALUE).read_bytes()
    # A later one finishes for a first one that died, and where this client only believes that the
    # name is missing: the rename cures that.
    if is_first or not path.exists():
        write_new(temporary, value, flush=True)
        temporary.replace(path)
    return value


def rename_folder(folder: Path, path: Path) -> bool:
    """Rename a folder that holds something; False where another such folder has the name."""
    try:
        folder.rename(path)
    except OSError as failed:
        if failed.errno in _TAKEN:
            return False
        raise
    return True


def remove_folder(folder: Path) -> None:
    """Remove a private folder and its file, as far as they are there; leftovers are only garbage."""
    with suppress(OSError):
        (folder / VALUE).unlink(missing_ok=True)
        folder.rmdir()
