"""The directory of a sandbox: which one, fit for the ordinary user, one command at a time."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from hpc_elastic.errors import SandboxError, UsageError
from hpc_elastic.testing.sandbox.account import Account
from hpc_elastic.testing.sandbox.configuration import SANDBOX_VARIABLE
from hpc_elastic.testing.sandbox.layout import DEFAULT_DIRECTORY, LONGEST_DIRECTORY, Layout

# What slurm.conf takes in a path without quoting; `%` would be expanded, `#` starts a comment.
_FIT_FOR_SLURM: Final = re.compile(r"[\w./+@:-]+", re.ASCII)


def locate(given: str | None, environ: Mapping[str, str]) -> Layout:
    """`--dir`, else $HPC_ELASTIC_SANDBOX, else the default one; with symbolic links resolved."""
    named = given or environ.get(SANDBOX_VARIABLE)
    return Layout(Path(named).absolute().resolve() if named else DEFAULT_DIRECTORY)


def check(layout: Layout, account: Account) -> None:
    """Raise `UsageError` where this directory cannot hold a sandbox."""
    directory = layout.directory
    if not _FIT_FOR_SLURM.fullmatch(str(directory)):
        raise UsageError(f"--dir {directory}: slurm.conf takes only letters, digits and ._/+@:- in a path")
    if len(str(directory)) > LONGEST_DIRECTORY:
        raise UsageError(
            f"--dir {directory}: {len(str(directory))} characters, and sockets below it allow "
            f"{LONGEST_DIRECTORY}; choose a shorter one, such as /var/tmp/sandbox"
        )
    if directory.exists() and not directory.is_dir():
        raise UsageError(f"--dir {directory}: this is a file; name a directory")
    if directory.is_dir() and not holds_only_ours(layout):
        raise UsageError(
            f"--dir {directory}: not ours, or holds other files; name a new or an empty directory"
        )
    for parent in directory.parents:
        if parent.is_dir() and not account.may_enter(parent):
            raise UsageError(
                f"--dir {directory}: user {account.name} cannot enter {parent} "
                f"(mode {parent.stat().st_mode & 0o7777:04o}); choose one below /var/tmp or /tmp"
            )


def holds_only_ours(layout: Layout) -> bool:
    """Whether the directory belongs to this user, and is empty or a sandbox's.

    Below /tmp somebody else could have put one there, to have root work in a place of theirs.
    """
    if layout.directory.stat().st_uid != os.geteuid():
        return False
    names = {entry.name for entry in layout.directory.iterdir()}
    return not names or layout.lock.name in names or layout.state_file.name in names


def make(layout: Layout) -> None:
    """The directory and those above it, open to everybody's eyes."""
    for folder in (*reversed(layout.directory.parents), layout.directory):
        if not folder.is_dir():
            folder.mkdir(exist_ok=True)
            folder.chmod(0o755)
    layout.directory.chmod(0o755)


@contextlib.contextmanager
def claimed(layout: Layout) -> Iterator[None]:
    """Be the only `up`, `down`, `kill-node` or `start-node` of this sandbox.

    The kernel gives the lock back when its holder dies, however it dies.
    """
    descriptor = os.open(layout.lock, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not _is_same_file(descriptor, layout.lock):
            raise BlockingIOError  # a `down` has just removed the file that we locked
        os.ftruncate(descriptor, 0)
        os.write(descriptor, str(os.getpid()).encode())
        yield
    except BlockingIOError:
        holder = layout.lock.read_text() if layout.lock.exists() else ""
        who = f" (pid {holder})" if holder else ""
        raise SandboxError(
            f"another command{who} is changing the sandbox in {layout.directory}; try again when it is done"
        ) from None
    finally:
        os.close(descriptor)


def clear(layout: Layout) -> None:
    """Remove all that a sandbox put there, except the lock."""
    for name in layout.ENTRIES:
        path = layout.directory / name
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def remove(layout: Layout) -> None:
    """Remove all that a sandbox put there; the directory stays where others have files in it."""
    clear(layout)
    layout.lock.unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # not empty: somebody else's files
        layout.directory.rmdir()
        if layout.directory == DEFAULT_DIRECTORY:
            layout.directory.parent.rmdir()


def _is_same_file(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False
