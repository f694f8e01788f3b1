"""A whole run, in short, by memberships that see one directory through different mounts.

Everything that a run does with its record happens once: a first round, a newcomer, a failure, a
notice, an agreed stop, a requeue that fences an older agent, success and closing. What comes back
is how long each record took to be seen by all, and what is wrong with the record.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from hpc_elastic.backends.file import FileBackend
from hpc_elastic.errors import HpcElasticError
from hpc_elastic.rendezvous import keys
from hpc_elastic.rendezvous.codec import decode_any
from hpc_elastic.rendezvous.invariants import violations_of_run
from hpc_elastic.rendezvous.membership import Membership
from hpc_elastic.rendezvous.record import Cause, Outcome, Reason, Record, Scope
from hpc_elastic.rendezvous.standing import JobStart, Seat, Settings, Standing
from hpc_elastic.stores.file import FileStore

START: Final = JobStart("cluster", "1", nodes=("n0", "n1", "n2", "n3"))
AGAIN: Final = JobStart("cluster", "1", restart_count=1, nodes=START.nodes)
SETTINGS: Final = Settings(
    min_nodes=2,
    max_nodes=4,
    expected_nodes=3,
    heartbeat_s=1.0,
    last_call_s=60.0,
    join_window_s=0.1,
    store_lost_s=60.0,
    shutdown_timeout_s=10.0,
    allow_loopback=True,
)
_LOOK_EVERY_S: Final = 0.005


class NotSeen(HpcElasticError):
    """Something that was to be seen by all was not, in the time that was given."""


@dataclass
class Rehearsal:
    """`roots` are the record as the mounts show it; node i uses the i-th of them, round and round.

    `delays` has, for each event, the seconds until the last node knew.
    """

    roots: Sequence[Path]
    settings: Settings = SETTINGS
    patience_s: float = 60.0
    delays: dict[str, float] = field(default_factory=dict)
    _opened: list[Membership] = field(default_factory=list)

    def run(self) -> dict[str, float]:
        """The whole scene. Raises the error of a node that refuses, or `NotSeen`."""
        try:
            members = self._first_round()
            members = self._newcomer(members)
            self._failure(members)
            self._notice(members)
            self._requeue(members)
        finally:
            self._leave_all()
        return self.delays

    def broken_laws(self) -> list[str]:
        """What is wrong with the record, read through the first mount's directory."""
        return violations_of_run(read_record(self.roots[0]), self.settings)

    def _open(self, index: int, start: JobStart = START) -> Membership:
        backend = FileBackend(self.roots[index % len(self.roots)])
        seat = Seat(f"n{index}", index, f"host{index}", "127.0.0.1", slots=1)
        member = Membership.open(backend, start, seat, self.settings)
        self._opened.append(member)
        member.start()
        return member

    def _until_all(
        self, members: Sequence[Membership], what: str, is_seen: Callable[[Standing], object]
    ) -> None:
        began_s = time.monotonic()
        self._until(lambda: all(is_seen(member.standing()) for member in members), members, what)
        self.delays[what] = round(time.monotonic() - began_s, 3)

    def _until(self, is_so: Callable[[], bool], members: Sequence[Membership], what: str) -> None:
        """Look until it is so. Raises the error of a member, or `NotSeen`."""
        began_s = time.monotonic()
        while not is_so():
            standings = [member.standing() for member in members]
            for one in standings:
                if one.error is not None:
                    raise one.error
            if time.monotonic() - began_s > self.patience_s:
                raise NotSeen(f"not seen by all within {self.patience_s:g} s: {what}; {standings}")
            time.sleep(_LOOK_EVERY_S)

    def _rejoin(self, members: Sequence[Membership], number: int, what: str) -> None:
        for member in members:
            member.join()
        self._until_all(members, what, lambda s: s.round is not None and s.round.number == number)

    def _first_round(self) -> list[Membership]:
        members = [self._open(index) for index in range(3)]
        self._rejoin(members, 1, "round of 3 started")
        return members

    def _newcomer(self, members: list[Membership]) -> list[Membership]:
        newcomer = self._open(3)
        newcomer.join()
        # The leader lets it in after a window: until then there is nothing to be seen.
        self._until(lambda: any(member.standing().drain for member in members), members, "a drain")
        self._until_all(members, "drain for a newcomer seen", lambda s: s.drain is not None)
        self._agree(members)
        for member in members:
            member.end_round(Cause.MEMBERS_JOINING)
        everybody = [*members, newcomer]
        self._rejoin(everybody, 2, "round of 4 started")
        return everybody

    def _agree(self, members: Sequence[Membership]) -> None:
        for step, member in enumerate(members):
            member.report_step(step)
        self._until_all(members, "stop step seen", lambda s: s.stop_step == len(members))

    def _failure(self, members: Sequence[Membership]) -> None:
        members[1].end_round(Cause.WORKER_FAILED, rank=1, exit_code=1, message="rehearsed")
        self._until_all(members, "failure seen", lambda s: s.end is not None)
        self._rejoin(members, 3, "round after a failure started")

    def _notice(self, members: Sequence[Membership]) -> None:
        members[3].announce(Reason.PREEMPTED, Scope.RUN, 30.0, "SIGUSR2")
        self._until_all(members, "notice seen", lambda s: s.notice is not None and s.drain is not None)
        self._agree(members)
        # n2 is slow to leave: it will meet the next attempt.
        leaving = [members[0], members[1], members[3]]
        threads = [threading.Thread(target=one.leave, args=(Outcome.SAVED, "", 20.0)) for one in leaving]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _requeue(self, members: Sequence[Membership]) -> None:
        began_s = time.monotonic()
        again = [self._open(index, AGAIN) for index in range(3)]
        self._rejoin(again, 4, "round of the next attempt started")
        self._until(lambda: members[2].standing().error is not None, again, "the fencing of an older agent")
        self.delays["newer attempt seen"] = round(time.monotonic() - began_s, 3)
        for member in again:
            member.mark_done()
        self._until_all(again, "closing seen", lambda s: s.closed is not None and s.closed.succeeded)

    def _leave_all(self) -> None:
        for member in self._opened:
            member.leave(Outcome.SAVED, "the rehearsal is over", 1.0)
            member.close()


def read_record(root: Path) -> dict[str, Record]:
    """Every record below `root`."""
    backend = FileBackend(root)
    found: dict[str, Record] = {}
    for folder in (keys.ATTEMPTS, keys.NODES, keys.ROUNDS):
        for name in backend.names(folder):
            key = f"{folder}/{name}"
            raw = backend.read(key)
            if raw is not None:
                found[key] = decode_any(raw, key=key)
    return found


def count_together(roots: Sequence[Path], *, writers: int, each: int) -> list[int]:
    """What `add(key, 1)` has told `writers` threads, `each` times, over stores that share a directory.

    If no count was lost, these are the numbers from 1 on.
    """
    told: list[int] = []

    def count(writer: int) -> None:
        store = FileStore(roots[writer % len(roots)])
        told.extend(store.add("counter", 1) for _ in range(each))

    threads = [threading.Thread(target=count, args=(writer,)) for writer in range(writers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return told
