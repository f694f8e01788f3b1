"""What `flock` is worth in a directory. Every question is asked by a child process with a time limit.

On a mount whose lock daemon is away the call never returns, and not even SIGKILL ends it: the child is
then left behind, and whoever asked goes on. Nothing in this package depends on a lock being held;
where locks work they keep writers from getting into each other's way.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from hpc_elastic.clock import SYSTEM_CLOCK

WORKS: Final = "works"
NO_EXCLUSION: Final = "no exclusion"
HANGS: Final = "hangs"
PATIENCE_S: Final = 5.0
_LOOK_EVERY_S: Final = 0.005

# Prints `works`, `no exclusion` or the name of an errno for two descriptors of two paths of one file.
_ASK: Final = """
import errno, fcntl, os, sys
try:
    first, second = (os.open(path, os.O_RDWR | os.O_CREAT, 0o600) for path in sys.argv[1:3])
    fcntl.flock(first, fcntl.LOCK_EX | fcntl.LOCK_NB)
    try:
        fcntl.flock(second, fcntl.LOCK_EX | fcntl.LOCK_NB)
        print("no exclusion")
    except BlockingIOError:
        print("works")
except OSError as refused:
    print(errno.errorcode.get(refused.errno, str(refused.errno)))
"""


def ask_flock(directory: Path, other: Path | None = None, *, patience_s: float = PATIENCE_S) -> str:
    """`WORKS`, `NO_EXCLUSION`, `HANGS`, or the name of the errno with which `flock` is refused.

    `other`: the same directory as another mount shows it; then the question is whether a lock that is
    held through one mount keeps others out that come through the other.
    """
    name = f".flock-{os.getpid():x}-{os.urandom(4).hex()}"
    paths = [directory / name, (other or directory) / name]
    command = [sys.executable, "-I", "-S", "-c", _ASK, *map(str, paths)]
    child = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    try:
        answer = _answer(child, patience_s)
    finally:
        if child.stdout is not None:
            child.stdout.close()
    if answer != HANGS:  # a name whose lock hangs may hang too
        paths[0].unlink(missing_ok=True)
    return answer


def _answer(child: subprocess.Popen[bytes], patience_s: float) -> str:
    """Looked at from time to time, not waited for: a child in an uninterruptible call stays."""
    give_up_at_s = SYSTEM_CLOCK.monotonic_s() + patience_s
    while child.poll() is None:
        if SYSTEM_CLOCK.monotonic_s() >= give_up_at_s:
            child.kill()
            return HANGS
        SYSTEM_CLOCK.sleep_s(_LOOK_EVERY_S)
    said = child.stdout.read().decode().strip() if child.stdout is not None else ""
    return said or f"status {child.returncode}"
