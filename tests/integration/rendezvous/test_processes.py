"""Real processes over one directory, killed and stopped on the way: the record keeps its promises."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hpc_elastic.backends.file import FileBackend
from hpc_elastic.rendezvous import keys
from hpc_elastic.rendezvous.codec import decode
from hpc_elastic.rendezvous.invariants import violations_of_run
from hpc_elastic.rendezvous.record import Cause, Closed, Record, Round, Settled, Verdict
from tests.integration.rendezvous.walker import finish_of, settings
from tests.waiting import wait_until

NODES = 6
SOON_S = 120.0
ROOT = Path(__file__).resolve().parents[3]


class Crowd:
    """Processes that take part in one run."""

    def __init__(self, record: Path) -> None:
        self.record = record
        self.backend = FileBackend(record)
        self.processes: dict[int, subprocess.Popen[bytes]] = {}

    def start(self, place: int) -> None:
        command = [sys.executable, str(Path(__file__).with_name("walker.py")), str(self.record), str(place)]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        self.processes[place] = subprocess.Popen([*command, str(NODES)], env=environment)

    def send(self, place: int, signum: int) -> None:
        self.processes[place].send_signal(signum)

    def ledger(self) -> dict[str, Record]:
        """All records but the presences, which only tell of the end."""
        found = {}
        for folder in (keys.ATTEMPTS, keys.ROUNDS):
            for name in self.backend.names(folder):
                raw = self.backend.read(f"{folder}/{name}")
                if raw is not None:
                    found[f"{folder}/{name}"] = decode(raw)
        return found

    def started_rounds(self) -> list[Round]:
        ledger = self.ledger()
        verdicts = [record for record in ledger.values() if isinstance(record, Verdict) and record.started]
        rounds = [ledger[keys.round_key(number)] for number in sorted(one.round for one in verdicts)]
        return [one for one in rounds if isinstance(one, Round)]

    def has_round_of(self, *places: int) -> bool:
        names = {f"n{place}" for place in places}
        rounds = self.started_rounds()
        return bool(rounds) and {member.name for member in rounds[-1].members} == names

    def end(self) -> None:
        for process in self.processes.values():
            if process.poll() is None:
                process.kill()
            process.wait()


@pytest.fixture
def crowd(tmp_path: Path) -> Iterator[Crowd]:
    crowd = Crowd(tmp_path / "record")
    yield crowd
    crowd.end()


def test_killed_and_stopped_processes_are_left_out_and_come_back_and_the_run_is_done(crowd: Crowd) -> None:
    for place in range(NODES):
        crowd.start(place)
    wait_until(lambda: crowd.has_round_of(0, 1, 2, 3, 4, 5), SOON_S, "all six have a round")

    crowd.send(0, signal.SIGKILL)
    crowd.send(3, signal.SIGSTOP)
    wait_until(lambda: crowd.has_round_of(1, 2, 4, 5), SOON_S, "the four others go on")
    crowd.send(3, signal.SIGCONT)
    crowd.processes[0].wait()
    crowd.start(0)
    wait_until(lambda: crowd.has_round_of(0, 1, 2, 3, 4, 5), SOON_S, "the two others are back")
    finish_of(crowd.record).touch()

    wait_until(lambda: all(p.poll() is not None for p in crowd.processes.values()), SOON_S, "all have ended")
    ledger = crowd.ledger()
    assert [process.returncode for process in crowd.processes.values()] == [0] * NODES
    assert any(isinstance(record, Closed) and record.succeeded for record in ledger.values())
    assert not any(isinstance(r, Settled) and r.cause is Cause.WORKER_FAILED for r in ledger.values())
    assert [what for what in violations_of_run(ledger, settings(NODES)) if "confirmed" not in what] == []
