"""What an idle member asks of the filesystem, counted by strace, and how fast a notice reaches all."""

from __future__ import annotations

import os
import re
import select
import shutil
import signal
import subprocess
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from benchmarks.gathering import Lines, crowd
from hpc_elastic.backends.file import FileBackend
from hpc_elastic.rendezvous.membership import Membership
from hpc_elastic.rendezvous.record import Outcome, Reason, Scope
from hpc_elastic.rendezvous.standing import JobStart, Seat, Settings, Standing

# Until the last newcomer, the end of forming and the news about it have been looked at for the last time.
SETTLING_S: Final = 12.0
_NOTICE_PATIENCE_S: Final = 60.0
_CALL: Final = re.compile(r"(?:^|\s)(\w+)\(")


@dataclass(frozen=True)
class Idle:
    """`calls`: of one ordinary member, by name; `leader_calls`: of rank 0, which watches all others.

    `seconds` is for how long they were watched, which on a busy machine is longer than was asked for.
    """

    nodes: int
    seconds: float
    calls: dict[str, int]
    leader_calls: dict[str, int]
    notice_s: float

    @property
    def calls_per_s(self) -> float:
        return sum(self.calls.values()) / self.seconds

    @property
    def leader_calls_per_s(self) -> float:
        return sum(self.leader_calls.values()) / self.seconds


@dataclass
class Idler:
    """A member with the default times. As it leaves the last one announces a notice, and all hear of it."""

    number: int
    nodes: int
    folder: Path
    heard: Lines
    membership: Membership = field(init=False)

    def join(self) -> tuple[int, int]:
        seat = Seat(f"n{self.number}", self.number, "host", "127.0.0.1", slots=1)
        settings = Settings(self.nodes, self.nodes, self.nodes, allow_loopback=True)
        self.membership = Membership.open(FileBackend(self.folder), JobStart("c", "1"), seat, settings)
        self.membership.start()
        self.membership.join()
        standing = self._await("round", 60.0)
        assert standing.round is not None
        assert standing.rank is not None
        return standing.rank, len(standing.round.members)

    def operations(self) -> int:
        return 0

    def leave(self) -> None:
        if self.number == self.nodes - 1:
            self.heard.say(announced=True, at_s=time.monotonic())
            self.membership.announce(Reason.PREEMPTED, Scope.RUN, 60.0)
        if self._await("drain", _NOTICE_PATIENCE_S).drain is not None:
            self.heard.say(announced=False, at_s=time.monotonic())
        self.membership.leave(Outcome.SAVED, "measured", 10.0)

    def _await(self, what: str, patience_s: float) -> Standing:
        until_s = time.monotonic() + patience_s
        while getattr(self.membership.standing(), what) is None and time.monotonic() < until_s:
            select.select([self.membership.fileno()], [], [], 1.0)
            self.membership.acknowledge()
        return self.membership.standing()


def why_not() -> str:
    """Why this machine cannot count calls; empty where it can."""
    return "" if shutil.which("strace") else "strace is not installed: apt-get install strace"


def measure_idle(folder: Path, nodes: int, seconds: float, settling_s: float = SETTLING_S) -> Idle:
    """Let a round of `nodes` stand for a while, count what two of them do, then announce a notice."""
    heard = Lines()
    with crowd(nodes, lambda number: Idler(number, nodes, folder / "record", heard)) as members:
        found = members.gather()
        if found.failed:
            raise RuntimeError(f"the members to be watched did not meet: {found.failed}")
        time.sleep(settling_s)
        # Ranks follow the node order: rank 0 is the first process, the one in the middle is like all others.
        began_s = time.monotonic()
        traces = [Trace.start(members.pids[place], folder / f"trace-{place}") for place in (0, nodes // 2)]
        time.sleep(seconds)
        leader_calls, calls = (trace.end(folder / "record") for trace in traces)
        watched_s = round(time.monotonic() - began_s, 1)
    lines = list(heard.hear(nodes + 1, time.monotonic() + _NOTICE_PATIENCE_S))
    announced_s = next(line["at_s"] for line in lines if line["announced"])
    ends_s = [line["at_s"] for line in lines if not line["announced"]]
    notice_s = max(ends_s) - announced_s if len(ends_s) == nodes else float("inf")
    return Idle(nodes, watched_s, calls, leader_calls, notice_s)


@dataclass(frozen=True)
class Trace:
    """strace on one process, its threads included."""

    process: subprocess.Popen[bytes]
    output: Path

    @classmethod
    def start(cls, pid: int, output: Path) -> Trace:
        command = [
            "strace",
            "-f",
            "-y",
            "-s",
            "0",
            "-e",
            "trace=%file,%desc",
            "-o",
            str(output),
            "-p",
            str(pid),
        ]
        return cls(subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL), output)

    def end(self, folder: Path) -> dict[str, int]:
        """The calls on what is below `folder`, by name; those on its descriptors are among them."""
        if self.process.poll() is not None:
            raise RuntimeError(f"strace ended with status {self.process.returncode}; may this user trace?")
        self.process.send_signal(signal.SIGINT)
        self.process.wait(120)
        place = os.fspath(folder.resolve())
        lines = [line for line in self.output.read_text(errors="replace").splitlines() if place in line]
        names = [found.group(1) for line in lines if (found := _CALL.search(line)) and "resumed>" not in line]
        return dict(Counter(names).most_common())
