"""The record in a directory that all nodes share.

Exclusive create is a private temporary that is flushed and then given its name, in the way that a
probe of the directory has found once for the run (`locking/`). A name that exists never changes, so
whoever loses reads the winner's bytes. Overwrite is a temporary and a rename; readers open afresh,
which is what makes an NFS client ask the server (close-to-open consistency).
"""

from __future__ import annotations

import errno
import os
import re
import threading
from functools import partial
from pathlib import Path
from typing import Final, NoReturn

from hpc_elastic.backends.base import check_key
from hpc_elastic.backends.economy import MAX_VALUE_BYTES, BeatInPlace, Glance, Place, read_whole
from hpc_elastic.clock import SYSTEM_CLOCK, Clock
from hpc_elastic.errors import BackendGone, BackendRefused, BackendUnavailable
from hpc_elastic.locking import exclusive, probe
from hpc_elastic.locking.exclusive import CLAIM_SUFFIX, Link, Way
from hpc_elastic.locking.folders import make_private
from hpc_elastic.locking.report import DirectoryReport
from hpc_elastic.locking.turns import in_turn

_BELL: Final = "bell"  # looked at by everybody all the time, and seldom another
_OF_ONE_WRITER: Final = "nodes/"
_OF_ALL: Final = re.compile(r"attempts/[0-9]+")  # all nodes of a start create it at once
# A seat is written by who sits on it: what a crash of that host leaves unwritten was a dead one's.
_OF_A_SEAT: Final = ".seat."
_TEMPORARY: Final = ".tmp"
_FOLDERS: Final = ("attempts", "nodes", "rounds", _TEMPORARY)
_NOT_THERE: Final = {errno.ENOENT, errno.ENOTDIR}
# The same answer to the same name, however often one asks.
_FOR_EVER: Final = {errno.ENAMETOOLONG, errno.ELOOP}
_NO_FOLDER: Final = {errno.ENOTDIR, errno.EEXIST}
_STALE_LOOKS: Final = 5
_NEXT_MOVE: Final = {
    errno.ENOSPC: "free space there, or choose another directory with HPC_ELASTIC_HOME",
    errno.EDQUOT: "your quota is used up: remove files, or choose another directory with HPC_ELASTIC_HOME",
    errno.EACCES: "check the owner and the mode of the directory",
    errno.EROFS: "the file system is mounted read-only: choose another with HPC_ELASTIC_HOME",
    errno.ESTALE: "the file server lost the handle; it is tried again",
    errno.EIO: "the file server or the disk fails; it is tried again",
    errno.ENAMETOOLONG: "take a shorter run id, node name or directory",
    **dict.fromkeys((errno.ENOTDIR, errno.EEXIST, errno.ELOOP), "choose another directory"),
    errno.EPERM: "the run was begun where hard links work; give all nodes the same mount of the directory",
}


class FileBackend:
    """A backend below the directory `root`, made with mode 0700 at the first write.

    `link` makes a hard link, or raises as `os.link` does where there are none. `is_durable`: what is
    created outlives a crash of this host. Threads may share it. Every `OSError` becomes
    `BackendUnavailable` with the path, the errno and the next move; a `root` that was there and has
    gone becomes `BackendGone`, one that cannot be trusted `BackendRefused`.

    A key below `nodes/` has one writer: nobody else may overwrite it while this backend does.
    """

    def __init__(
        self,
        root: Path,
        link: Link = os.link,
        *,
        is_durable: bool = True,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.root = root
        self._root = os.fspath(root)
        self._is_durable = is_durable
        self._make_link = link
        self._nonce = f"{os.getpid():x}-{os.urandom(6).hex()}"
        self._count = 0
        self._lock = threading.Lock()
        self._is_prepared = False
        self._report: DirectoryReport | None = None
        self._clock = clock
        self._bell = Glance(self._stored)
        self._beats: dict[str, BeatInPlace] = {}

    def create(self, key: str, value: bytes) -> bytes:
        path = self._path(key)
        if not _OF_ALL.fullmatch(key):
            return self._create(path, value, flush=self._is_durable and _OF_A_SEAT not in key)
        self._prepare()
        mark = self.root / _TEMPORARY / f"{key.replace('/', '-')}.turn"
        create = partial(self._create, path, value, flush=self._is_durable)
        try:
            return in_turn(mark, partial(self.read, key), create, self._clock)
        except OSError as failed:
            self._refuse(failed, path, "take turns for")

    def _create(self, path: Path, value: bytes, *, flush: bool) -> bytes:
        way = self.report().way
        temporary = self._write_temporary(path, value, flush=flush)
        try:
            return (
                self._by_link(temporary, path, value) if way == Way.LINK else self._by_folder(temporary, path)
            )
        finally:
            self._discard(temporary)

    def overwrite(self, key: str, value: bytes) -> None:
        path = self._path(key)
        if not key.startswith(_OF_ONE_WRITER):
            self._overwrite(path, value)
            return
        with self._lock:
            beat = self._beats.setdefault(key, BeatInPlace())
            if beat.write(path, value):
                return
            beat.forget()
        self._overwrite(path, value)
        with self._lock:
            beat.note(value)

    def _overwrite(self, path: Path, value: bytes) -> None:
        temporary = self._write_temporary(path, value, flush=False)
        try:
            temporary.replace(path)
        except FileNotFoundError:
            self._make_parent(path)
            self._replace(temporary, path)
        except OSError as failed:
            self._discard(temporary)
            self._refuse(failed, path, "replace")

    def read(self, key: str) -> bytes | None:
        path = f"{self._root}/{check_key(key)}"  # half of all calls are reads: a Path costs as much as one
        try:
            if key == _BELL:
                return self._bell.read(path, self._clock.monotonic_s())
            return self._stored(path)
        except OSError as failed:
            if failed.errno in _NOT_THERE:
                self._check_root(failed)
            elif failed.errno != errno.EISDIR:
                self._refuse(failed, path, "read")
            return None

    def names(self, folder: str) -> frozenset[str]:
        path = self._path(folder)
        try:
            with os.scandir(path) as entries:
                return frozenset(entry.name for entry in entries if _is_value(entry))
        except OSError as failed:
            if failed.errno in _NOT_THERE:
                self._check_root(failed)
                return frozenset()
            self._refuse(failed, path, "list")

    def remove(self, key: str) -> None:
        path = self._path(key)
        try:
            path.unlink()
            if self.report().way == Way.FOLDER:
                exclusive.remove_folder(path.with_name(path.name + CLAIM_SUFFIX))
        except IsADirectoryError:
            import shutil  # it brings three compressors along, and an agent seldom gets here

            shutil.rmtree(path, ignore_errors=True)
        except OSError as failed:
            if failed.errno not in _NOT_THERE:
                self._refuse(failed, path, "remove")

    def report(self) -> DirectoryReport:
        """What is known of the directory, for the whole run: found by the first that asks, and kept in it."""
        if self._report is None:
            self._prepare()
            try:
                self._report = probe.settle(self.root, self._make_link)
            except probe.DirectoryRefused as refused:
                raise BackendRefused(str(refused)) from refused
            except OSError as failed:
                self._refuse(failed, self.root, "probe")
        return self._report

    def wait(self, timeout_s: float, wake: threading.Event) -> None:
        wake.wait(timeout_s)

    def close(self) -> None:
        with self._lock:
            for beat in self._beats.values():
                beat.forget()

    def _path(self, key: str) -> Path:
        return self.root / check_key(key)

    def _write_temporary(self, path: Path, value: bytes, *, flush: bool) -> Path:
        """A private file that holds `value`; `flush`: it is on the disk before it gets its name.

        Without the flush a crash of the host could leave an empty file under a name that is never
        written again.
        """
        if len(value) > MAX_VALUE_BYTES:
            raise BackendRefused(f"{len(value)} bytes for {path}: a value has {MAX_VALUE_BYTES} at most")
        self._prepare()
        with self._lock:
            self._count += 1
            temporary = self.root / _TEMPORARY / f"{self._nonce}-{self._count}"
        try:
            exclusive.write_new(temporary, value, flush=flush)
        except OSError as failed:
            self._discard(temporary)
            self._refuse(failed, path, "write a temporary for")
        return temporary

    def _by_link(self, temporary: Path, path: Path, value: bytes) -> bytes:
        for _ in range(3):
            try:
                if exclusive.by_link(temporary, path, self._make_link):
                    return value
            except FileNotFoundError:
                self._make_parent(path)
                continue
            except OSError as failed:
                self._refuse(failed, path, "link")
            try:
                return self._stored(path)
            except FileNotFoundError:
                continue  # removed in this moment
            except OSError as failed:
                self._refuse(failed, path, "read")
        return self._refuse(OSError(errno.ESTALE, os.strerror(errno.ESTALE)), path, "create")

    def _by_folder(self, temporary: Path, path: Path) -> bytes:
        if not _may_be_there(path.parent):
            self._make_parent(path)
        try:
            return exclusive.by_folder(temporary, path)
        except OSError as failed:
            self._refuse(failed, path, "create")

    def _replace(self, temporary: Path, path: Path) -> None:
        """Give the temporary its name; another may have done so for us already."""
        try:
            temporary.replace(path)
        except OSError as failed:
            if failed.errno in _NOT_THERE and path.exists():
                return
            self._discard(temporary)
            self._refuse(failed, path, "replace")

    def _stored(self, path: Place) -> bytes:
        """The bytes of a file, opened anew where the server has replaced it between two calls."""
        for _ in range(_STALE_LOOKS):
            try:
                return read_whole(path)
            except OSError as failed:
                if failed.errno != errno.ESTALE:
                    raise
        return read_whole(path)

    def _prepare(self) -> None:
        if self._is_prepared:
            return
        try:
            if not (self.root / _FOLDERS[-1]).is_dir():  # the last: then the others are there too
                for folder in ("", *_FOLDERS):
                    make_private(self.root / folder)
        except OSError as failed:
            self._refuse(failed, self.root, "make")
        self._is_prepared = True

    def _make_parent(self, path: Path) -> None:
        """Make the folder of a deeper key. The folders of the record itself are made only once."""
        if path.relative_to(self.root).parts[0] in _FOLDERS:
            self._refuse(OSError(errno.ENOENT, os.strerror(errno.ENOENT)), path, "find the folder of")
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as failed:
            self._refuse(failed, path, "make the folder of")

    def _check_root(self, failed: OSError) -> None:
        if self._is_prepared and not _may_be_there(self.root):
            self._refuse(failed, self.root, "find")

    def _discard(self, temporary: Path) -> None:
        try:
            temporary.unlink()
        except OSError:
            return  # a leftover in .tmp is garbage, not a fault

    def _refuse(self, failed: OSError, path: Place, verb: str) -> NoReturn:
        number = failed.errno or 0
        code = errno.errorcode.get(number, str(number))
        if self._is_prepared and number in _NOT_THERE and not _may_be_there(self.root / "rounds"):
            raise BackendGone(
                f"the run record {self.root} is no longer there (cannot {verb} {path}: {code}); "
                "somebody removed or unmounted it: start the run again"
            ) from failed
        move = _NEXT_MOVE.get(number, "it is tried again; look at the file system if it goes on")
        is_definite = number in _FOR_EVER or (number in _NO_FOLDER and not self._is_prepared)
        kind = BackendRefused if is_definite else BackendUnavailable
        raise kind(f"cannot {verb} {path}: {code} ({os.strerror(number)}); {move}") from failed


def _may_be_there(path: Path) -> bool:
    """Whether a path exists; a server that fails to answer has not said no."""
    try:
        path.stat()
    except OSError as failed:
        return failed.errno not in _NOT_THERE
    return True


def _is_value(entry: os.DirEntry[str]) -> bool:
    """Whether a name is a key with a value: no claim, no leftover, no folder."""
    return not entry.name.startswith(".") and not entry.name.endswith("~") and not entry.is_dir()
