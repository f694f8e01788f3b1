"""The store in a directory that all nodes share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Final
from zlib import crc32

from hpc_elastic.backends.file import FileBackend
from hpc_elastic.clock import SYSTEM_CLOCK, Clock
from hpc_elastic.errors import BackendUnavailable
from hpc_elastic.locking import probe
from hpc_elastic.locking.locks import WORKS
from hpc_elastic.stores.records import RecordStore
from hpc_elastic.stores.values import DEFAULT_TIMEOUT_S, Time

DEFAULT_SPACE: Final = "stores/0"
_LOCKS: Final = 16
_LONGEST_LOCK_S: Final = 0.5
_FLOCK_PATIENCE_S: Final = 2.0


class FileStore(RecordStore):
    """A record store below `root`, which is made with mode 0700 where it is missing.

    Locks only keep writers of one key from wasting each other's time. Where there are none, where
    they hold on one host alone, or where somebody sits on one, everything goes on, a little slower.
    """

    def __init__(
        self,
        root: Path | str,
        space: str = DEFAULT_SPACE,
        timeout: Time = DEFAULT_TIMEOUT_S,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        # A store ends with its round, and a round with its first lost host: nothing has to outlive a crash.
        self._files = FileBackend(Path(root), is_durable=False)
        super().__init__(self._files, space, timeout, clock)
        self._root = Path(root)
        self._folder = Path(root) / space
        self._flock: str | None = None

    def courtesy(self, name: str) -> AbstractContextManager[object]:
        if self._flock is None:
            with suppress(OSError, BackendUnavailable):  # asked again at the next change
                self._files.report()
                self._flock = probe.settle_flock(self._root, patience_s=_FLOCK_PATIENCE_S)
        # A lock that excludes nobody is no help, and one that hangs would never come back.
        if self._flock != WORKS:
            return nullcontext()
        return _held(self._folder / f".lock-{crc32(name.encode()) % _LOCKS}")


@contextmanager
def _held(path: Path) -> Iterator[None]:
    """A lock for the while, if it can be had soon."""
    from filelock import FileLock, Timeout

    lock = FileLock(path, mode=0o600)
    # flock is refused in ways of its own by each file system: ENOSYS, ENOLCK, EOPNOTSUPP, EIO.
    with suppress(OSError, NotImplementedError, Timeout):
        lock.acquire(timeout=_LONGEST_LOCK_S, poll_interval=0.002)
    try:
        yield
    finally:
        with suppress(OSError):
            lock.release()
