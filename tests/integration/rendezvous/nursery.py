"""Light members of a run, forked on demand: `nursery.py PLAN`, a place a line in, its pid a line out."""

from __future__ import annotations

import json
import os
import select
import signal
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import hpc_elastic.stores.file  # noqa: F401 - imported once, here, and not in each member
from hpc_elastic.backends import etcd_endpoints
from hpc_elastic.backends.base import Backend
from hpc_elastic.backends.etcd_endpoints import EtcdAddress
from hpc_elastic.backends.file import FileBackend
from hpc_elastic.clock import SYSTEM_CLOCK
from hpc_elastic.rendezvous import keys
from hpc_elastic.rendezvous.choice import ETCD_V3, Wanted, open_etcd, open_meeting
from hpc_elastic.rendezvous.membership import Membership
from hpc_elastic.rendezvous.record import Cause, Outcome
from hpc_elastic.rendezvous.standing import JobStart, Seat, Settings, Standing
from tests.integration.rendezvous.history import Written, written_below

RUN_ID = "chaos"
START = JobStart("c", "1")
FAILED_STATUS = 9


@dataclass(frozen=True)
class Plan:
    """What all members of a run share. They work until there is a file `finish`, then they are done."""

    folder: Path
    nodes: int
    min_nodes: int
    heartbeat_s: float
    etcd: str = ""

    @property
    def record(self) -> Path:
        return self.folder / "record"

    @property
    def finish(self) -> Path:
        return self.folder / "finish"

    def diary(self, place: int, pid: int) -> Path:
        """What one process has seen: a line for each round that it was told to start."""
        return self.folder / f"diary-{place}-{pid}"

    def settings(self) -> Settings:
        return Settings(
            self.min_nodes,
            self.nodes,
            self.nodes,
            heartbeat_s=self.heartbeat_s,
            last_call_s=2.0,
            join_window_s=0.3,
            shutdown_timeout_s=3.0,
            store_lost_s=120.0,
            allow_loopback=True,
        )

    def dump(self) -> str:
        return json.dumps({**asdict(self), "folder": str(self.folder)})

    @classmethod
    def parse(cls, text: str) -> Plan:
        said = json.loads(text)
        return cls(**{**said, "folder": Path(said["folder"])})

    def open_backend(self, name: str) -> Backend:
        ledger = FileBackend(self.record)
        if not self.etcd:
            return ledger
        wanted = Wanted(ETCD_V3, self._address(), lambda _: self._address())
        return open_meeting(wanted, ledger, START, run_id=RUN_ID, name=name, clock=SYSTEM_CLOCK).backend

    def open_live(self, ledger: Backend) -> Backend | None:
        """Where the members meet, opened by somebody who only looks; None before the first of them came.

        With etcd never the ledger: its copies of presences are older than what the members see.
        """
        if not self.etcd:
            return ledger
        space = ledger.read(keys.SPACE)
        if space is None:
            return None
        return open_etcd(ETCD_V3, self._address(), f"{RUN_ID}/{space.decode()}", SYSTEM_CLOCK)[1]

    def history(self) -> Iterator[Written]:
        """Each write to the etcd where the members meet, in order; nothing where they meet in a directory."""
        space = FileBackend(self.record).read(keys.SPACE)
        if not self.etcd or space is None:
            return iter(())
        address = self._address()
        return written_below(address, f"{address.prefix}/{RUN_ID}/{space.decode()}/")

    def _address(self) -> EtcdAddress:
        return etcd_endpoints.parse(self.etcd, {}, {}, request_timeout_s=30.0)


class Life:
    """One process's part in the run."""

    def __init__(self, plan: Plan, place: int) -> None:
        self.plan = plan
        self.parent = os.getppid()
        name = f"n{place}"
        seat = Seat(name, place, "host", "127.0.0.1", slots=1)
        self.member = Membership.open(plan.open_backend(name), START, seat, plan.settings())
        self.diary = plan.diary(place, os.getpid()).open("a", buffering=1)
        self.started = 0
        self.through = 0

    def live(self) -> int:
        """0 when the run is done, 1 when this node has lost its part in it."""
        self.member.start()
        self.member.join()
        while os.getppid() == self.parent:
            select.select([self.member.fileno()], [], [], 0.2)
            self.member.acknowledge()
            standing = self.member.standing()
            if standing.error is not None or standing.closed is not None:
                return self._leave(standing)
            if standing.round is not None:
                self._work(standing)
        return FAILED_STATUS

    def _work(self, standing: Standing) -> None:
        current = standing.round
        assert current is not None
        if current.number > self.started:
            self.started = current.number
            members = [member.node for member in current.members]
            self._note(round=current.number, node=standing.node, rank=standing.rank, members=members)
        if current.number <= self.through:
            return
        if standing.end is not None or standing.drain is not None:
            self.through = current.number
            if standing.end is None:
                self.member.report_step(None)
                self.member.end_round(Cause.DRAIN)
            self.member.join()
        elif self.plan.finish.exists():
            self.member.mark_done()

    def _leave(self, standing: Standing) -> int:
        done = standing.closed is not None and standing.closed.succeeded
        self._note(left="done" if done else str(standing.error))
        self.member.leave(Outcome.DONE if done else Outcome.UNSAVED, str(standing.error), 10.0)
        return 0 if done else 1

    def _note(self, **values: Any) -> None:
        self.diary.write(json.dumps(values) + "\n")


def main(plan: Plan) -> None:
    if plan.etcd:
        import urllib3  # noqa: F401
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody asks how they ended: their diaries say it
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            status = FAILED_STATUS
            try:
                status = Life(plan, int(line)).live()
            finally:
                os._exit(status)
        sys.stdout.write(f"{pid}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(Plan.parse(sys.argv[1]))
