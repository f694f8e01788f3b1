"""The operations of one mount, for mfusepy: each is done on the source directory, or goes wrong."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import NoReturn

from hpc_elastic.testing.passthrough.faults import FLOCK_HANGS, FLOCK_LOCAL, FLOCK_SHARED, MountFaults

_ATTRIBUTES = (
    "st_mode",
    "st_nlink",
    "st_size",
    "st_uid",
    "st_gid",
    "st_mtime_ns",
    "st_ctime_ns",
    "st_atime_ns",
)


class Passthrough:
    """Looks at `control` before each operation, so that chances can be changed while it is mounted."""

    use_ns = True

    def __init__(self, source: Path, control: Path) -> None:
        self._source = str(source)
        self._control = control
        self._chance = Random()
        self._changed_at_ns = -1
        self._faults = MountFaults()
        self._listings: dict[str, tuple[float, list[str]]] = {}
        self._lock = threading.Lock()
        self._read_control()
        self._chance.seed(self._faults.seed)
        if self._faults.flock == FLOCK_LOCAL:
            setattr(self, "flock", None)  # noqa: B010 - the kernel then keeps the locks of this mount itself

    def getattr(self, path: str, fh: int | None = None) -> dict[str, int]:
        if path != "/":
            self._may_fail()
        found = os.fstat(fh) if fh is not None else os.lstat(self._real(path))
        shown = {name: getattr(found, name) for name in _ATTRIBUTES}
        return {name.removesuffix("_ns"): value for name, value in shown.items()}

    def readdir(self, path: str, fh: int) -> Iterator[str]:
        self._may_fail()
        now_s = time.monotonic()
        with self._lock:
            read_at_s, names = self._listings.get(path, (float("-inf"), []))
            if now_s - read_at_s >= self._faults.listings_s:
                names = os.listdir(self._real(path))
                self._listings[path] = (now_s, names)
        yield from (".", "..", *names)

    def open(self, path: str, flags: int) -> int:
        self._may_fail()
        return os.open(self._real(path), flags)

    def create(self, path: str, mode: int, flags: int) -> int:
        self._may_fail()
        self._forget(path)
        if not self._faults.is_exclusive:
            flags &= ~os.O_EXCL
        made = os.open(self._real(path), flags | os.O_CREAT, mode)
        if self._loses("create"):
            os.close(made)
            self._fail("EIO")
        return made

    def read(self, path: str, size: int, offset: int, fh: int) -> bytes:
        self._may_fail()
        return os.pread(fh, size, offset)

    def write(self, path: str, data: bytes, offset: int, fh: int) -> int:
        self._may_fail()
        return os.pwrite(fh, data, offset)

    def flush(self, path: str, fh: int) -> int:
        return 0

    def release(self, path: str, fh: int) -> int:
        os.close(fh)
        return 0

    def fsync(self, path: str, datasync: int, fh: int) -> int:
        self._may_fail()
        return 0

    def link(self, target: str, source: str) -> int:
        self._may_fail()
        if not self._faults.has_links:
            self._fail("EPERM")
        self._forget(target)
        try:
            os.link(self._real(source), self._real(target))
        except FileExistsError:
            if self._faults.is_exclusive:
                raise
        return self._answer("link")

    def rename(self, old: str, new: str) -> int:
        self._may_fail()
        self._forget(old, new)
        if not self._faults.is_exclusive and os.path.isdir(self._real(new)):
            shutil.rmtree(self._real(new))
        os.rename(self._real(old), self._real(new))
        return self._answer("rename")

    def unlink(self, path: str) -> int:
        self._may_fail()
        self._forget(path)
        os.unlink(self._real(path))
        return 0

    def mkdir(self, path: str, mode: int) -> int:
        self._may_fail()
        self._forget(path)
        os.mkdir(self._real(path), mode)
        return 0

    def rmdir(self, path: str) -> int:
        self._forget(path)
        os.rmdir(self._real(path))
        return 0

    def symlink(self, target: str, source: str) -> int:
        self._forget(target)
        os.symlink(source, self._real(target))
        return 0

    def readlink(self, path: str) -> str:
        return os.readlink(self._real(path))

    def truncate(self, path: str, length: int, fh: int | None = None) -> int:
        os.truncate(self._real(path) if fh is None else fh, length)
        return 0

    def chmod(self, path: str, mode: int) -> int:
        os.chmod(self._real(path), mode)
        return 0

    def chown(self, path: str, uid: int, gid: int) -> int:
        os.lchown(self._real(path), uid, gid)
        return 0

    def utimens(self, path: str, times: tuple[int, int] | None = None) -> int:
        os.utime(self._real(path), ns=times or (time.time_ns(), time.time_ns()))
        return 0

    def statfs(self, path: str) -> dict[str, int]:
        found = os.statvfs(self._source)
        names = ("f_bsize", "f_frsize", "f_blocks", "f_bfree", "f_bavail", "f_files", "f_ffree", "f_namemax")
        return {name: getattr(found, name) for name in names}

    def flock(self, path: str, fh: int, operation: int) -> int:
        word = self._faults.flock
        if word == FLOCK_HANGS:
            threading.Event().wait()
        if word != FLOCK_SHARED:
            self._fail(word)
        fcntl.flock(fh, operation)
        return 0

    def _real(self, path: str) -> str:
        return self._source + path

    def _forget(self, *paths: str) -> None:
        with self._lock:
            for path in paths:
                self._listings.pop(os.path.dirname(path), None)

    def _read_control(self) -> None:
        changed_at_ns = self._control.stat().st_mtime_ns
        if changed_at_ns != self._changed_at_ns:
            self._faults = MountFaults.decode(self._control.read_text())
            self._changed_at_ns = changed_at_ns

    def _may_fail(self) -> None:
        with self._lock:
            self._read_control()
            for name, probability in self._faults.errors.items():
                if self._chance.random() < probability:
                    self._fail(name)

    def _loses(self, operation: str) -> bool:
        with self._lock:
            return self._chance.random() < self._faults.lost_replies.get(operation, 0.0)

    def _answer(self, operation: str) -> int:
        if self._loses(operation):
            self._fail("EIO")
        return 0

    def _fail(self, name: str) -> NoReturn:
        number = getattr(errno, name)
        raise OSError(number, os.strerror(number))
