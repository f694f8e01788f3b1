"""Fewer calls for what an idle node does all the time: a beat in place, a look at one file by its stamps.

Both are for network file systems first, where a call is a message to a server that many jobs share.
"""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Final

# Time stamps of some servers count whole seconds, those of FAT two: two files that replace each other
# within that time may look the same, with the same reused inode.
_STAMP_STEP_S: Final = 3.0
_FORCE_SYNC: Final = 0x2000
_BASIC_STATS: Final = 0x7FF
_STATX_BYTES: Final = 256
_AT_FDCWD: Final = -100
# NFS and FUSE ask their server for AT_STATX_FORCE_SYNC from these kernels on (NFS 4.19, FUSE 4.20).
_FIRST_KERNEL: Final = (4, 20)

_PAGE_BYTES: Final = 4096
MAX_VALUE_BYTES: Final = 256 * 1024 * 1024

Place = str | os.PathLike[str]
Stamps = tuple[int, ...]
Look = Callable[[Place], Stamps | None]


def read_whole(path: Place) -> bytes:
    """The bytes of a file, in three calls if it is smaller than a page. Raises `OSError`."""
    # Whatever has got that name, a pipe say, opening it waits for nobody.
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        parts, size = [], 0
        while part := os.read(descriptor, 1 << 16):
            parts.append(part)
            size += len(part)
            if size < _PAGE_BYTES:
                break  # it ends in its first page: no need to ask whether there is more
            if size > MAX_VALUE_BYTES:
                raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
        return b"".join(parts)
    finally:
        os.close(descriptor)


class BeatInPlace:
    """Overwrites that change one byte, as a beat does nine times in ten, as one write to a file held open.

    A temporary and a rename are four calls, and each rename makes every client forget what it knew of
    the folder. One byte is written whole or not at all, so no reader can see a mixture. O_DSYNC sends it
    to the server at once, where a reader finds it when it opens the file; else an NFS client keeps it
    until the file is closed. Only for keys that nobody else writes: a file that another has put under
    the name would not be hit.
    """

    def __init__(self) -> None:
        self._value = b""
        self._descriptor: int | None = None

    def write(self, path: Place, value: bytes) -> bool:
        """Whether it was done; if not, a whole file has to be written, and `note` be called."""
        place = only_change(self._value, value)
        if place is None:
            return False
        try:
            if self._descriptor is None:
                self._descriptor = os.open(path, os.O_WRONLY | os.O_DSYNC | os.O_CLOEXEC)
            written = os.pwrite(self._descriptor, value[place : place + 1], place)
        except OSError:  # a stale handle, a removed file: a whole new file cures it, or tells why not
            self.forget()
            return False
        self._value = value
        return written == 1

    def note(self, value: bytes) -> None:
        """A whole file with `value` has got the name."""
        self.forget()
        self._value = value

    def forget(self) -> None:
        """Close the file."""
        descriptor, self._descriptor, self._value = self._descriptor, None, b""
        if descriptor is not None:
            with suppress(OSError):
                os.close(descriptor)


def only_change(old: bytes, new: bytes) -> int | None:
    """Where the one byte is in which two values of the same length differ; None where more does."""
    if len(old) != len(new):
        return None
    places = [place for place, (one, other) in enumerate(zip(old, new, strict=True)) if one != other]
    return places[0] if len(places) == 1 else None


class Glance:
    """Reads one file, in one call while it is the one that was read last; reading it anew takes three.

    For a file that is replaced by renaming and never has the same bytes again. A plain `stat` would not
    do: an NFS client answers it from what it remembers for 3 to 60 s. `statx` with AT_STATX_FORCE_SYNC
    asks the server, about the very file that was read: that has been unlinked by then, which is told by
    ESTALE (the kernel then looks the name up anew) or by the changed ctime and number of links. `look`
    gives the stamps of a path that way, or None where nobody can.
    """

    def __init__(self, read: Callable[[Place], bytes], look: Look | None = None) -> None:
        self._read = read
        self._look = look
        self._value: bytes | None = None
        self._since_s = 0.0
        self._stamps: Stamps | None = None

    def read(self, path: Place, now_s: float) -> bytes:
        """The bytes that stand under `path`. Raises what `read` does."""
        value, stamps = self._value, self._stamps
        if value is not None and stamps is not None and self._ask(path) == stamps:
            return value
        # Stamps count only of a file that has stood for a while, and only if taken before it was read.
        has_stood = value is not None and now_s - self._since_s >= _STAMP_STEP_S
        stamps = self._ask(path) if has_stood else None
        found = self._read(path)
        if found != value:
            self._value, self._since_s, stamps = found, now_s, None
        self._stamps = stamps
        return found

    def _ask(self, path: Place) -> Stamps | None:
        if self._look is None:
            self._look = make_look()  # a millisecond, which nobody has to spare before it has been quiet
        return self._look(path)


@cache
def make_look() -> Look:
    """Looks by statx(2), which Python has from 3.15 on only; without it each look says None."""
    if _kernel() < _FIRST_KERNEL:
        return _blind
    try:
        import ctypes

        statx = ctypes.CDLL(None).statx
    except (ImportError, OSError, AttributeError):
        return _blind

    def look(path: Place) -> Stamps | None:
        buffer = ctypes.create_string_buffer(_STATX_BYTES)
        if statx(_AT_FDCWD, os.fsencode(path), _FORCE_SYNC, _BASIC_STATS, buffer) != 0:
            return None
        links, inode, size = struct.unpack_from("=16xI12xQQ", buffer)
        changed_s, changed_ns, _, written_s, written_ns = struct.unpack_from("=96xqIIqI", buffer)
        return (links, inode, size, changed_s * 10**9 + changed_ns, written_s * 10**9 + written_ns)

    return look


def _blind(path: Place) -> Stamps | None:
    del path
    return None


def _kernel() -> tuple[int, ...]:
    numbers = os.uname().release.split("-")[0].split(".")[:2]
    return tuple(int(number) for number in numbers if number.isdecimal())
