"""Puts a notice where the agents of an attempt look: into the run's record, and into the etcd they meet in.

Agents that meet in etcd read nothing of the directory while they run.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from hpc_elastic.agent.rundir import RunDirectory
from hpc_elastic.backends.base import Backend
from hpc_elastic.backends.file import FileBackend
from hpc_elastic.clock import Clock
from hpc_elastic.errors import HpcElasticError, SubmissionError
from hpc_elastic.rendezvous import choice, keys, outside
from hpc_elastic.rendezvous.choice import Wanted
from hpc_elastic.rendezvous.codec import decode_as
from hpc_elastic.rendezvous.record import BackendChoice, NodeState, Notice, Reason, Scope
from hpc_elastic.status.snapshot import AttemptSnapshot, RunSnapshot

_RINGS: Final = 2
_RING_AGAIN_S: Final = 0.3
_WRITER: Final = "told from outside"


def by_environment() -> Wanted:
    """How to reach an etcd that only the record names: with what this process's environment says of it."""
    from hpc_elastic.backends import etcd_endpoints

    return Wanted(choice.AUTO, None, lambda text: etcd_endpoints.parse(text, {}, os.environ))


@dataclass(frozen=True)
class Notifier:
    """Of one run. `wanted` says how to reach its etcd from here; it is asked only where there is one."""

    run: RunSnapshot
    clock: Clock
    wanted: Callable[[], Wanted] = by_environment

    def note(self, attempt: AttemptSnapshot, reason: Reason, seconds_left: float, signal: str) -> Notice:
        """The notice that stands for `attempt` from now on: ours, or one that was there before."""
        return self._put(keys.notice_key(attempt.number), attempt, reason, seconds_left, signal)

    def better(self, attempt: AttemptSnapshot, reason: Reason, seconds_left: float, signal: str) -> Notice:
        """The same for what betters a notice that stands already; there is one place for it as well."""
        return self._put(keys.cause_key(attempt.number), attempt, reason, seconds_left, signal)

    def meets_elsewhere(self, attempt: AttemptSnapshot) -> bool:
        """Whether the agents of `attempt` meet in etcd."""
        return self._choice(attempt) is not None

    def pass_on(self, attempt: AttemptSnapshot) -> None:
        """What stands on record for `attempt`, put into its etcd; nothing where it meets in the directory.

        Raises `SubmissionError`, with what to type, where that etcd cannot be reached from here.
        """
        chosen = self._choice(attempt)
        if chosen is None:
            return
        ledger = self._ledger()
        try:
            live = choice.open_from_outside(
                self.wanted(),
                chosen,
                ledger,
                run_id=self.run.run_id or self.run.run_dir.name,
                name=socket.gethostname(),
                clock=self.clock,
            )
            try:
                for key in (keys.notice_key(attempt.number), keys.cause_key(attempt.number)):
                    raw = ledger.read(key)
                    if raw is not None:
                        self._give(live, key, decode_as(raw, Notice, key=key))
            finally:
                live.close()
        except HpcElasticError as failed:
            raise SubmissionError(self._what_to_type(attempt, failed)) from failed
        finally:
            ledger.close()

    def _what_to_type(self, attempt: AttemptSnapshot, failed: HpcElasticError) -> str:
        there = {
            one.host: None
            for one in self.run.presences
            if one.attempt == attempt.number and one.state is not NodeState.LEFT
        }
        where = " or ".join(there) or "one of its nodes"
        return (
            "the order is on record, but the agents meet in etcd, do not look there, and cannot be told from "
            f"here: {failed}; on {where} find an agent by `pgrep -af 'hpc_elastic run'` and send it "
            "`kill -USR2 PID`: it reads the order and tells the others"
        )

    def _ledger(self) -> FileBackend:
        return FileBackend(RunDirectory(self.run.run_dir).record)

    def _choice(self, attempt: AttemptSnapshot) -> BackendChoice | None:
        backend = self._ledger()
        try:
            key = keys.backend_key(attempt.number)
            raw = backend.read(key)
            found = None if raw is None else decode_as(raw, BackendChoice, key=key)
            return None if found is None or found.backend == choice.FILE else found
        finally:
            backend.close()

    def _put(
        self, key: str, attempt: AttemptSnapshot, reason: Reason, seconds_left: float, signal: str
    ) -> Notice:
        now, writer = self.clock.utc_now(), f"{_WRITER}-{os.urandom(4).hex()}"
        ours = Notice(attempt.number, reason, Scope.RUN, seconds_left, "", signal, now, writer)
        backend = self._ledger()
        try:
            return self._give(backend, key, ours)
        finally:
            backend.close()

    def _give(self, backend: Backend, key: str, notice: Notice) -> Notice:
        stands = outside.put(backend, key, notice)
        for _ in range(_RINGS):  # an agent that rings at the same moment overwrites the bell
            self.clock.sleep_s(_RING_AGAIN_S)
            outside.ring(backend, key, notice.writer)
        return stands
