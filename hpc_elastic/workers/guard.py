"""A tiny process that outlives a killed agent by a moment, to end what its workers started.

The kernel ends workers together with their agent (parent-death signal), but not the helpers that
they have started. The guard waits for the end of a pipe of which the agent alone holds the other end,
then ends everything of the agent's workers. While it waits it holds an almost empty interpreter.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # as typing.TYPE_CHECKING, without its import
if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterable

_FAREWELL = b"farewell\n"
_GIVE_UP_AFTER_S = 30.0
_LEAVE_WITHIN_S = 5.0
_LOOK_EVERY_S = 0.02


class Guard:
    """The agent's handle on its guard."""

    def __init__(self, popen: subprocess.Popen[bytes], marker: str, folder: str) -> None:
        self._popen = popen
        self._marker = marker
        self._folder = folder

    @classmethod
    def start(cls, marker: str, folder: str = "") -> Guard:
        """Start the guard of the workers with this marker; `OSError` when that is impossible.

        It removes `folder` as well, once the workers of a killed agent are gone.
        """
        import signal
        import subprocess

        # slurmd signals every process of a step. The mask survives exec, and the guard never lifts it.
        deaf = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2}
        before = signal.pthread_sigmask(signal.SIG_BLOCK, deaf)
        try:
            popen = subprocess.Popen(
                [sys.executable, "-I", "-S", __file__, marker, folder],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,  # says nothing; its end is the guard's
                start_new_session=True,
                cwd="/",
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return cls(popen, marker, folder)

    @property
    def pid(self) -> int:
        return self._popen.pid

    def renewed(self) -> Guard:
        """This guard, or another in its place where somebody has killed it and another can be started."""
        from contextlib import suppress

        if self._popen.poll() is None:
            return self
        with suppress(OSError):
            another = Guard.start(self._marker, self._folder)
            self.close()
            return another
        return self

    def watch(self, worker_pids: Iterable[int]) -> None:
        """Name the workers of the newest round: their sessions are to be ended too."""
        self._write(" ".join(str(pid) for pid in worker_pids).encode() + b"\n")

    def close(self) -> None:
        """Dismiss the guard; it does nothing more."""
        import select

        self._write(_FAREWELL)
        if self._popen.stdin is None or self._popen.stdout is None:
            return
        self._popen.stdin.close()
        # Not Popen.wait with a time, which sleeps: under libfaketime that fails with EINVAL now and then.
        if not select.select([self._popen.stdout], [], [], _LEAVE_WITHIN_S)[0]:
            self._popen.kill()
        self._popen.wait()
        self._popen.stdout.close()

    def _write(self, line: bytes) -> None:
        from contextlib import suppress

        if self._popen.stdin is None or self._popen.stdin.closed:
            return
        # Far below the pipe's capacity, so it cannot block. It fails where somebody killed the guard;
        # workers still have the parent-death signal then.
        with suppress(OSError):
            os.write(self._popen.stdin.fileno(), line)


def main(marker: str, folder: str) -> None:
    """Wait for the agent's end or farewell; after an end without farewell, end its workers and its folder."""
    heard = b""
    while piece := os.read(0, 65536):
        heard = (heard + piece)[-65536:]
        if heard.endswith(_FAREWELL):
            return
        heard = heard[heard.rstrip(b"\n").rfind(b"\n") + 1 :]
    _end_all(marker, {int(word) for word in heard.split() if word.isdigit()})
    if folder:
        import shutil

        shutil.rmtree(folder, ignore_errors=True)


def _end_all(marker: str, sessions: set[int]) -> None:
    import signal
    import time
    from pathlib import Path

    sys.path.append(str(Path(__file__).resolve().parents[2]))
    from hpc_elastic.workers import tree

    give_up_at_s = time.monotonic() + _GIVE_UP_AFTER_S
    while time.monotonic() < give_up_at_s:
        left = tree.left_behind(marker, sessions, ())
        if not left:
            return
        for each in left:
            tree.send(each, signal.SIGKILL)
        time.sleep(_LOOK_EVERY_S)  # noqa: TID251 (a process of its own, with no Clock to take)


if __name__ == "__main__":
    main(*sys.argv[1:])
