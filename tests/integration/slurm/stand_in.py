"""Stands in for the package where only the batch script is on trial: `python -m hpc_elastic`.

`run` takes LOAD_S to listen, or until a signal is pending, says where and how it was started, notes signals,
and leaves NAP_S later or a while after a signal; `requeue` says how it was called, and with ALL_GONE=yes its
watch says so at once.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from types import FrameType

SHOWN = ("SLURM_ARRAY_JOB_ID", "SLURM_RESTART_COUNT", "SLURM_CPU_BIND_LIST", "PREFIXED")


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def agent(words: list[str]) -> int:
    node = os.environ.get("SLURMD_NODENAME", "here")
    heard: list[int] = []

    def note(signum: int, frame: FrameType | None) -> None:
        heard.append(signum)
        say(f"agent {node} heard {signal.Signals(signum).name}")

    say(f"agent {node} loads")
    load_until_s = time.monotonic() + float(os.environ.get("LOAD_S", "0"))
    while time.monotonic() < load_until_s and not signal.sigpending():
        signal.sigtimedwait([], 0.05)
    for signum in (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(signum, note)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2))
    shown = " ".join(f"{name}={os.environ[name]}" for name in SHOWN if name in os.environ)
    say(f"agent {node} of {words} with {len(os.sched_getaffinity(0))} CPUs {shown}".rstrip())
    until_s = time.monotonic() + float(os.environ.get("NAP_S", "0"))
    while time.monotonic() < until_s and not heard:
        signal.sigtimedwait([], 0.05)
    if heard:
        signal.sigtimedwait([], 1.0)
    say(f"agent {node} leaves")
    return 80 if heard else 0


def main() -> int:
    command, words = sys.argv[1], sys.argv[2:]
    if command == "run":
        return agent(words)
    if words[0] == "--watch":
        if os.environ.get("ALL_GONE") != "yes":
            sys.stdin.read()
            return 1
        return 0
    say(f"requeue {words}")
    return int(os.environ.get("CHECKED", "0")) if words[0] == "--check" else 42


if __name__ == "__main__":
    sys.exit(main())
