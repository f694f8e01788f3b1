"""Mounts for tests: made, changed while they stand, and unmounted whatever happens."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from hpc_elastic.errors import HpcElasticError
from hpc_elastic.testing.passthrough.faults import MountFaults

_MOUNTED_WITHIN_S: Final = 60.0
_KILLED_WITHIN_S: Final = 60.0
_ENDS_WITHIN_S: Final = 1.0  # then it is killed: it holds nothing that is not in the source directory


class MountError(HpcElasticError):
    """A test mount could not be made."""


def why_not() -> str:
    """Why this machine cannot mount; empty where it can."""
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        return "/dev/fuse is not there, or not for this user"
    if not any(Path(folder, "fusermount3").exists() for folder in ("/usr/bin", "/bin", "/usr/local/bin")):
        return "fusermount3 not installed: apt-get install fuse3"
    if find_spec("mfusepy") is None:
        return "mfusepy not installed: pip install mfusepy"
    return ""


class Mount:
    """One mount that stands. `change` alters its chances; caches and flock stay as they were mounted."""

    def __init__(self, path: Path, control: Path, server: subprocess.Popen[bytes]) -> None:
        self.path = path
        self._control = control
        self._server = server

    def change(self, faults: MountFaults) -> None:
        """From the next operation on, the mount behaves so."""
        _write(self._control, faults)

    def freeze(self) -> None:
        """Let no operation return, as when the server of a hard mount is gone."""
        self._server.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Carry out what waits, and go on."""
        self._server.send_signal(signal.SIGCONT)


@contextmanager
def mounted(source: Path, mountpoint: Path, faults: MountFaults) -> Iterator[Mount]:
    """`source` seen at `mountpoint` with `faults`, by a process of its own."""
    mountpoint.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="passthrough-") as kept:
        control, log = Path(kept, "faults.json"), Path(kept, "log")
        _write(control, faults)
        command = [sys.executable, "-m", __package__, str(source), str(mountpoint), str(control)]
        with log.open("wb") as output:
            server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        try:
            _wait_until_mounted(server, mountpoint, log)
            yield Mount(mountpoint, control, server)
        finally:
            _unmount(server, mountpoint)


def _write(control: Path, faults: MountFaults) -> None:
    fresh = control.with_suffix(".new")
    fresh.write_text(faults.encode())
    fresh.replace(control)


def _wait_until_mounted(server: subprocess.Popen[bytes], mountpoint: Path, log: Path) -> None:
    deadline_s = time.monotonic() + _MOUNTED_WITHIN_S
    while not os.path.ismount(mountpoint):
        if server.poll() is not None or time.monotonic() > deadline_s:
            raise MountError(f"no mount at {mountpoint}: {log.read_text(errors='replace')[-2000:].strip()}")
        time.sleep(0.01)


def _unmount(server: subprocess.Popen[bytes], mountpoint: Path) -> None:
    """Lazily, so that an open file does not matter; the server is killed, so that no call hangs in it."""
    subprocess.run(
        ["fusermount3", "-u", "-z", str(mountpoint)], capture_output=True, timeout=60.0, check=False
    )
    try:
        server.wait(_ENDS_WITHIN_S)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait(_KILLED_WITHIN_S)
