"""Random kills, stops and returns of the members of a run, and what its record says after them."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hpc_elastic.backends.base import Backend
from hpc_elastic.backends.file import FileBackend
from hpc_elastic.rendezvous import keys
from hpc_elastic.rendezvous.codec import decode
from hpc_elastic.rendezvous.invariants import violations, violations_of_run
from hpc_elastic.rendezvous.record import Closed, Record, Round, Settled, Verdict
from tests.integration.rendezvous.nursery import Plan
from tests.waiting import wait_until

ROOT = Path(__file__).resolve().parents[3]


@dataclass
class Chaos:
    """A run of many members, and what is done to them. `pids` are of the newest process of each place."""

    plan: Plan
    chance: random.Random
    nursery: subprocess.Popen[str] = field(init=False)
    pids: dict[int, int] = field(default_factory=dict)
    all_pids: set[int] = field(default_factory=set)
    returns_at_s: dict[int, tuple[float, signal.Signals]] = field(default_factory=dict)
    _live: Backend | None = None
    done: dict[str, int] = field(default_factory=lambda: {"killed": 0, "stopped": 0})

    def __post_init__(self) -> None:
        self.plan.folder.mkdir(parents=True, exist_ok=True)
        script = Path(__file__).with_name("nursery.py")
        with open(self.plan.folder / "stderr", "ab") as complaints:
            self.nursery = subprocess.Popen(
                [sys.executable, str(script), self.plan.dump()],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=complaints,
                text=True,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
            )

    def start(self, place: int) -> None:
        assert self.nursery.stdin is not None
        assert self.nursery.stdout is not None
        self.nursery.stdin.write(f"{place}\n")
        self.nursery.stdin.flush()
        self.pids[place] = int(self.nursery.stdout.readline())
        self.all_pids.add(self.pids[place])

    def rage(self, seconds: float, is_enough: Callable[[], bool] = lambda: True) -> None:
        """Kill and stop members at random, a third of them at most at any time; bring them back later.

        It ends when the time is over and `is_enough`, at the latest after five times as long.
        """
        pause = threading.Event()
        began_s = time.monotonic()
        while (now_s := time.monotonic()) - began_s < seconds or not (
            is_enough() or now_s - began_s > 5 * seconds
        ):
            self._bring_back(now_s)
            if len(self.returns_at_s) < self.plan.nodes // 3:
                self._strike(now_s)
            # Now and then it is calm for long enough to form a round, or none would ever be struck.
            is_calm = self.chance.random() < 0.1
            pause.wait(3 * self.plan.settings().liveness_s if is_calm else self.chance.uniform(0.3, 2.0))
        self._bring_back(float("inf"))

    def settle(self, timeout_s: float) -> float:
        """How long it took, after the last fault, until all members were in one started round."""
        began_s = time.monotonic()
        wait_until(self._all_meet, timeout_s, f"all {self.plan.nodes} members meet: {self._complaints()}")
        return time.monotonic() - began_s

    def finish(self, timeout_s: float) -> None:
        """Let the members be done, and wait until they have ended."""
        self.plan.finish.touch()
        wait_until(lambda: not any(map(_lives, self.pids.values())), timeout_s, "all members have ended")

    def end(self) -> None:
        """Nothing stays, whatever has happened."""
        for pid in self.all_pids:
            if _is_member(pid, self.nursery.pid):
                os.kill(pid, signal.SIGKILL)
        self.nursery.kill()
        self.nursery.wait()

    def ledger(self) -> dict[str, Record]:
        """All records of the run directory, and the presences from where the members meet."""
        kept = FileBackend(self.plan.record)
        self._live = self._live or self.plan.open_live(kept)
        looks: list[tuple[Backend, str]] = [(kept, keys.ATTEMPTS), (kept, keys.ROUNDS)]
        if self._live is not None:
            looks.append((self._live, keys.NODES))
        found = {}
        for backend, folder in looks:
            for name in backend.names(folder):
                raw = backend.read(f"{folder}/{name}")
                if raw is not None:
                    found[f"{folder}/{name}"] = decode(raw)
        return found

    def started_rounds(self) -> dict[int, Round]:
        return _started(self.ledger())

    def violations(self) -> list[str]:
        """What is wrong with the record, and with what the members were told beside it."""
        ledger = self.ledger()
        wrong = violations_of_run(ledger, self.plan.settings())
        if any(isinstance(record, Settled) and record.cause.is_failure for record in ledger.values()):
            wrong.append("a worker's failure is settled although no worker has failed")
        if not any(isinstance(record, Closed) and record.succeeded for record in ledger.values()):
            wrong.append("the run was not closed as done")
        rounds = _started(ledger)
        wrong += self.slips()
        return wrong + [what for line in self.diaries() for what in _misled(line, rounds)]

    def slips(self) -> Iterator[str]:
        """What was wrong with each write at the moment of it, as far as an etcd remembers the order."""
        ledger: dict[str, Record] = {}
        for one in self.plan.history():
            if one.value is None or not one.key.startswith((f"{keys.ROUNDS}/", f"{keys.NODES}/")):
                continue
            record = decode(one.value)
            for what in violations(one.key, record, ledger, self.plan.settings()):
                yield f"at revision {one.revision}: {what}; {record} after {ledger.get(one.key)}"
            ledger[one.key] = record

    def diaries(self) -> Iterator[dict[str, Any]]:
        for path in sorted(self.plan.folder.glob("diary-*")):
            for line in path.read_text().splitlines():
                yield json.loads(line)

    def _bring_back(self, now_s: float) -> None:
        for place, (at_s, how) in list(self.returns_at_s.items()):
            if at_s > now_s:
                continue
            del self.returns_at_s[place]
            if how is signal.SIGCONT:
                os.kill(self.pids[place], signal.SIGCONT)
            else:
                self.start(place)

    def _strike(self, now_s: float) -> None:
        place = self.chance.choice([one for one in self.pids if one not in self.returns_at_s])
        if not _lives(self.pids[place]):
            raise AssertionError(f"the member at place {place} has ended by itself: {self._complaints()}")
        liveness_s = self.plan.settings().liveness_s
        if self.chance.random() < 0.5:
            os.kill(self.pids[place], signal.SIGKILL)
            self.returns_at_s[place] = (now_s + self.chance.uniform(0.0, 2 * liveness_s), signal.SIGKILL)
            self.done["killed"] += 1
        else:
            os.kill(self.pids[place], signal.SIGSTOP)
            self.returns_at_s[place] = (now_s + self.chance.uniform(0.5, 3 * liveness_s), signal.SIGCONT)
            self.done["stopped"] += 1

    def _all_meet(self) -> bool:
        rounds = self.started_rounds()
        if not rounds:
            return False
        newest = rounds[max(rounds)]
        return len(newest.members) == self.plan.nodes and f"rounds/{newest.number}.end" not in self.ledger()

    def _complaints(self) -> str:
        left = [str(line["left"]) for line in self.diaries() if "left" in line]
        stderr = (self.plan.folder / "stderr").read_text(errors="replace")
        return "; ".join(left[-5:]) + stderr[-2000:]


def _started(ledger: dict[str, Record]) -> dict[int, Round]:
    verdicts = [record for record in ledger.values() if isinstance(record, Verdict) and record.started]
    rounds = {one.round: ledger.get(keys.round_key(one.round)) for one in verdicts}
    return {number: record for number, record in rounds.items() if isinstance(record, Round)}


def _misled(line: dict[str, Any], rounds: dict[int, Round]) -> Iterator[str]:
    """What is wrong with a member's word about a round that it was told to start."""
    if "round" not in line:
        return
    agreed = rounds.get(line["round"])
    if agreed is None:
        yield f"{line['node']} was told to start round {line['round']}, which has not started"
        return
    members = [member.node for member in agreed.members]
    if members != line["members"] or members.index(line["node"]) != line["rank"]:
        yield f"{line['node']} was told another round {line['round']} than the record has"


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except (OSError, IndexError):
        return False


def _is_member(pid: int, nursery: int) -> bool:
    """Whether the process is still the one that was forked: its number may be another's by now."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]) in (nursery, 1)
    except (OSError, IndexError, ValueError):
        return False
