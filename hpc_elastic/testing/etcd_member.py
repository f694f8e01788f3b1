"""One etcd process of a test: started, paused, killed, emptied."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_END_TIMEOUT_S: Final = 60.0
_SBIN: Final = "/usr/local/sbin:/usr/sbin:/sbin"


def program(name: str = "etcd") -> str | None:
    """Where a program is, or None."""
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:{_SBIN}")


@dataclass
class EtcdMember:
    """One server process with a data directory and two ports of its own."""

    name: str
    folder: Path
    port: int
    command: tuple[str, ...]
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it; its data are those it had."""
        # The kernel ends it with us, should we be killed before we can.
        setpriv = program("setpriv")
        prefix = (setpriv, "--pdeathsig", "KILL", "--") if setpriv else ()
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen(
                (*prefix, *self.command), stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def pause(self) -> None:
        """Stop it where it stands; its sockets stay open and nobody answers. Returns when it stands."""
        if self.process is not None:
            self._send(signal.SIGSTOP)
            # The signal stops its threads when they have a turn: until then they go on answering.
            os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def resume(self) -> None:
        """Let it go on."""
        self._send(signal.SIGCONT)

    def kill(self) -> None:
        """End it at once."""
        if self.process is not None:
            self._send(signal.SIGKILL)
            self.process.wait(_END_TIMEOUT_S)
            self.process = None

    def wipe(self) -> None:
        """Remove its data; only after `kill`."""
        shutil.rmtree(self.folder / "data", ignore_errors=True)

    def end_of_log(self) -> str:
        """The last lines of what it has said."""
        return "\n".join((self.folder / "log").read_text(errors="replace").splitlines()[-5:])

    def _send(self, signum: signal.Signals) -> None:
        if self.process is not None:
            self.process.send_signal(signum)
