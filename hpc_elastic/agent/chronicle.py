"""What `hpc-elastic run` leaves in `events/<node>.jsonl`: a line per state of a worker and per outcome.

A thread of its own writes the lines, and what it cannot write is dropped: neither a full disk nor a mount
that hangs decides over a run.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from hpc_elastic import events
from hpc_elastic.agent import actions, pulse
from hpc_elastic.agent.inputs import How, Input, WorkerEnd, WorkerFailed, WorkersGone
from hpc_elastic.agent.local_round import LocalRound
from hpc_elastic.agent.plan import Plan
from hpc_elastic.agent.ranks import WorkerRanks, of_node
from hpc_elastic.agent.speaker import Speaker
from hpc_elastic.agent.state import Phase
from hpc_elastic.clock import Clock
from hpc_elastic.events import PROGRESS, EventMetadataValue, EventSource
from hpc_elastic.rendezvous.record import Outcome
from hpc_elastic.rendezvous.standing import Standing

_LAST_LINES_S: Final = 1.0
# Names of sinks that add nothing to the file that there is anyway.
_NOTHING_MORE: Final = ("null", "jsonl")
_OF_OUTCOME: Final = {
    Outcome.DONE: "SUCCEEDED",
    Outcome.SAVED: "STOPPED",
    Outcome.UNSAVED: "STOPPED",
    Outcome.FAILED: "FAILED",
}
_OF_END: Final = {How.DONE: "SUCCEEDED", How.SAVED: "STOPPED"}


class Chronicle:
    """The events of one agent of the command line."""

    def __init__(self, plan: Plan, clock: Clock) -> None:
        self._plan = plan
        self._clock = clock
        self._began_s = clock.monotonic_s()
        self._speaker: Speaker | None = None
        self._file: events.BoundedFile | None = None
        self._sink: events.Sink | None = None
        self._round: dict[str, EventMetadataValue] = {}
        self._ranks: dict[int, WorkerRanks] = {}
        self._pids: list[int] = []
        self._pulse = pulse.Pulse()

    def begins(self, action: actions.Action, standing: Standing) -> None:
        """An order is about to be carried out."""
        agreed, rank = standing.round, standing.rank
        if not isinstance(action, actions.StartWorkers) or agreed is None or rank is None:
            return
        self._round = {
            "attempt": standing.attempt,
            "round": agreed.number,
            "group_rank": rank,
            "group_world_size": len(agreed.members),
            "agent_restarts": agreed.failures,
        }
        if agreed.left_out:
            self._round["left_out"] = ", ".join(agreed.left_out)
        self._pids, self._pulse = [], pulse.Pulse()
        self._ranks = {each.local_rank: each for each in of_node(agreed, rank)}
        self._of_workers("STARTING", self._ranks)

    def done(self, action: actions.Action, local: LocalRound | None) -> None:
        """An order was carried out."""
        match action:
            case actions.StartWorkers() if local is not None:
                self._pids = local.pids()
                self._of_workers("HEALTHY", self._ranks)
            case actions.Leave(outcome, exit_code, message):
                raw_error = message if outcome is Outcome.FAILED else None
                self._tell(
                    _OF_OUTCOME[outcome],
                    EventSource.AGENT,
                    {"exit_code": int(exit_code), "raw_error": raw_error},
                )
            case _:
                return

    def looked(self, local: LocalRound, found: Iterable[Input], now_s: float) -> None:
        """The workers of this round were looked at, and `found` is what happened to them."""
        is_last = any(isinstance(each, WorkersGone) for each in found)
        if is_last or (not local.is_over and self._pulse.wants_look(now_s)):
            progress = self._pulse.beat(local.how_far(), now_s, is_last=is_last)
            if progress is not None:
                self._tell(PROGRESS, EventSource.AGENT, progress._asdict())

    def told(self, phase: Phase, given: Input) -> None:
        """The machine is told something, in this phase."""
        match given:
            case WorkerFailed(end):
                # While workers are being stopped, what ends badly is a sibling and no cause.
                self._of_end("FAILED" if phase is Phase.RUNNING else "TERMINATED", end)
            case WorkersGone(ends):
                for end in ends:
                    if end.how in _OF_END:
                        self._of_end(_OF_END[end.how], end)
            case _:
                return

    def close(self) -> None:
        """Write what is left, if it can be written soon."""
        if self._speaker is not None and self._speaker.finish(_LAST_LINES_S) and self._file is not None:
            self._file.close()
        self._speaker = None
        if self._sink is not None:
            with suppress(Exception):
                self._sink.close()

    def _of_workers(self, state: str, local_ranks: Iterable[int]) -> None:
        for local_rank in local_ranks:
            self._tell(state, EventSource.WORKER, self._about(local_rank))

    def _of_end(self, state: str, end: WorkerEnd) -> None:
        about = self._about(end.local_rank)
        about |= {"exit_code": end.returncode, "raw_error": end.message or None}
        if end.how is How.FAILED:
            about["cause"] = end.cause.value
        self._tell(state, EventSource.WORKER, about)

    def _about(self, local_rank: int) -> dict[str, EventMetadataValue]:
        pid = self._pids[local_rank] if local_rank < len(self._pids) else None
        ranks = self._ranks.get(local_rank)
        about: dict[str, EventMetadataValue] = {"local_rank": local_rank, "worker_pid": pid}
        if pid is not None:
            about["worker_id"] = str(pid)
        if ranks is not None:
            about |= {
                "global_rank": ranks.global_rank,
                "role_rank": ranks.role_rank,
                "role_world_size": ranks.role_world_size,
            }
        return about

    def _tell(self, state: str, source: EventSource, about: dict[str, EventMetadataValue]) -> None:
        known: dict[str, EventMetadataValue] = {
            "run_id": self._plan.run_id,
            "entry_point": os.path.basename(self._plan.program.target),  # noqa: PTH119 - may be a module
            "role": self._plan.seat.role,
            "hostname": socket.gethostname(),
            "total_run_time": round(self._clock.monotonic_s() - self._began_s, 3),
            "rdzv_backend": self._plan.backend or None,
        }
        facts = {**known, **self._round, **about}
        is_progress = state == PROGRESS
        event = events.progress_event(facts) if is_progress else events.status_event(state, source, facts)
        if self._speaker is None:
            self._file = events.BoundedFile(self._path)
            self._speaker = Speaker(self._file, "")
        self._speaker.say(event.serialize())
        if self._plan.event_log_handler not in _NOTHING_MORE:
            self._pass_on(event)

    def _pass_on(self, event: events.Event) -> None:
        with suppress(Exception):  # a sink that fails loses its events and harms nobody
            place = events.Place(self._plan.directory.path, self._plan.seat.name)
            self._sink = self._sink or events.open_sink(self._plan.event_log_handler, place)
            self._sink.write(event)

    @property
    def _path(self) -> Path:
        return events.path_in(self._plan.directory.path, self._plan.seat.name)
