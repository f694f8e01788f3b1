"""The run directory: what lies where, and whether a directory can be trusted to be one."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

from hpc_elastic.clock import SYSTEM_CLOCK, Clock
from hpc_elastic.errors import RunDirectoryError, UsageError
from hpc_elastic.locking.folders import make_private
from hpc_elastic.locking.passing import persist
from hpc_elastic.values import dataclass

_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH
_NEXT_MOVE: Final = "choose another with --run-dir, or set HPC_ELASTIC_HOME"


@dataclass(frozen=True)
class RunDirectory:
    """The paths below one run directory. Only `prepare` and `keep_logs_in` touch the file system."""

    path: Path

    @property
    def record(self) -> Path:
        """The root of the run record where its backend is the directory."""
        return self.path / "record"

    @property
    def description(self) -> Path:
        """`run.json`: what was started, for people and for `status`."""
        return self.path / "run.json"

    @property
    def checkpoints(self) -> Path:
        """Where training scripts keep their state, across rounds and attempts."""
        return self.path / "checkpoints"

    def logs(self, attempt: int, round_number: int) -> Path:
        """The folder of `<rank>.out` and `<rank>.err` of one round."""
        return self.path / "logs" / str(attempt) / str(round_number)

    def errors(self, attempt: int, round_number: int) -> Path:
        """The folder of the error files `<rank>.json` of one round."""
        return self.path / "errors" / str(attempt) / str(round_number)

    def notice(self, attempt: int, round_number: int, node: str) -> Path:
        """The notice file of one node's workers in one round; there once a notice has come."""
        return self.path / "notices" / str(attempt) / str(round_number) / f"{node}.json"

    def health(self, attempt: int, name: str) -> Path:
        """What the health command has printed on the node of this name, where there is one."""
        return self.path / "health" / str(attempt) / f"{name}.log"

    def keep_logs_in(self, folder: Path, attempt: int) -> None:
        """Let the logs of an attempt lie below `folder`, and lead their usual paths there.

        Where an earlier agent has led them elsewhere, they stay there. Raises `OSError`, also where that is
        no directory on this node.
        """
        place, link = folder / str(attempt), self.path / "logs" / str(attempt)
        for each in (place, link.parent):
            make_private(each)
        with suppress(FileExistsError):
            link.symlink_to(place)
        if not link.is_dir():
            raise OSError(
                f"the logs of attempt {attempt} lie in {link.readlink()}, as the --log-dir of another node "
                f"says, and this node, whose --log-dir is {folder}, has no such directory; "
                "give all nodes the same --log-dir"
            )

    @classmethod
    def check(cls, path: Path) -> RunDirectory:
        """The run directory at `path`, which may not exist yet; nothing is created.

        Raises `RunDirectoryError` where it is a file, belongs to someone else, can be written by
        others, or cannot be written or created.
        """
        path = path.absolute()
        try:
            return cls._checked(path)
        except OSError as refused:  # a name that is too long, a loop of links, a server that is gone
            raise _refusal(path, refused) from refused

    @classmethod
    def _checked(cls, path: Path) -> RunDirectory:
        nearest = _nearest(path)
        if nearest == path and nearest.is_dir():
            _check_owner(path)
        if not nearest.is_dir():
            raise RunDirectoryError(f"run directory {path}: {nearest} is not a directory; {_NEXT_MOVE}")
        if not os.access(nearest, os.W_OK | os.X_OK):
            raise RunDirectoryError(f"run directory {path}: {nearest} is not writable; {_NEXT_MOVE}")
        return cls(path)

    @classmethod
    def prepare(cls, path: Path, clock: Clock = SYSTEM_CLOCK) -> RunDirectory:
        """Check `path` and create it, with mode 0700, where it is missing.

        A file server that answers with an error that passes is asked again, for two seconds.
        """
        path = path.absolute()
        try:
            return persist(lambda: _make(cls._checked(path)), clock)
        except OSError as refused:
            raise _refusal(path, refused) from refused


def check_logs(folder: Path) -> Path:
    """`folder`, which may not exist yet; nothing is created.

    Raises `UsageError` where no logs can lie there.
    """
    try:
        nearest = _nearest(folder)
        is_fine = nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK)
    except OSError as refused:  # a name that is too long, a loop of links, a server that is gone
        raise UsageError(f"--log-dir {folder}: {refused.strerror}; choose another") from refused
    if not is_fine:
        raise UsageError(
            f"--log-dir {folder}: {nearest} is no directory that you may write to; choose another"
        )
    return folder


def _make(directory: RunDirectory) -> RunDirectory:
    for folder in (directory.path, directory.record, directory.checkpoints):
        make_private(folder)
    _check_owner(directory.path)
    return directory


def _refusal(path: Path, refused: OSError) -> RunDirectoryError:
    what = errno.errorcode.get(refused.errno or 0, "")
    where = f" ({refused.filename})" if refused.filename and str(refused.filename) != str(path) else ""
    if isinstance(refused, PermissionError):
        return RunDirectoryError(f"run directory {path}: no access to {refused.filename}; {_NEXT_MOVE}")
    return RunDirectoryError(
        f"run directory {path} cannot be created or used: {what}{where}: {refused.strerror}; {_NEXT_MOVE}"
    )


def _nearest(path: Path) -> Path:
    """`path`, or the first of its parents that exists."""
    return next(each for each in (path, *path.parents) if each.exists())


def _check_owner(path: Path) -> None:
    named = path.lstat()
    if stat.S_ISLNK(named.st_mode) and named.st_uid not in (0, os.geteuid()):
        raise RunDirectoryError(
            f"run directory {path} is a symbolic link that uid {named.st_uid} has made, and it can lead "
            f"anywhere tomorrow; {_NEXT_MOVE}"
        )
    found = path.stat()
    if found.st_uid != os.geteuid():
        raise RunDirectoryError(
            f"run directory {path} belongs to uid {found.st_uid}, not to you ({os.geteuid()}); {_NEXT_MOVE}"
        )
    if found.st_mode & _OTHERS_WRITE:
        mode = stat.S_IMODE(found.st_mode)
        raise RunDirectoryError(
            f"run directory {path} has mode {mode:04o}: others could change the run; `chmod go-w {path}`"
        )
