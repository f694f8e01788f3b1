"""The part of one round that happens on this node: page, workers, logs and notice file."""

from __future__ import annotations

import json
import os
import signal
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hpc_elastic.agent import cgroups, pulse, ranks, worker_starts
from hpc_elastic.agent.environment import NodeRound
from hpc_elastic.agent.inputs import How, Input, WorkerEnd, WorkerFailed, WorkersGone, WorkersStuck, judge
from hpc_elastic.agent.plan import Plan
from hpc_elastic.agent.round_output import RoundOutput
from hpc_elastic.clock import Clock
from hpc_elastic.rendezvous.record import Cause, Reason, Round
from hpc_elastic.workers import tree
from hpc_elastic.workers.failures import describe_exit, read_error
from hpc_elastic.workers.group import GroupPhase, GroupState, WorkerExit, WorkerGroup, WorkerStart
from hpc_elastic.workers.guard import Guard
from hpc_elastic.workers.logs import LogFiles
from hpc_elastic.workers.page import Page

if TYPE_CHECKING:
    from hpc_elastic.agent.overdue import Limits
    from hpc_elastic.agent.overseer import Condemned, Overseer

_MESSAGE_CHARS: Final = 2000
_STOPPING_LOOK_S: Final = 0.02


class LocalRound:
    """This node's workers of one round. Nothing here waits, but `close` for the console."""

    def __init__(
        self,
        place: NodeRound,
        page: Page,
        group: WorkerGroup,
        output: RoundOutput,
        clock: Clock,
        *,
        look_s: float,
        limits: Limits | None = None,
    ) -> None:
        self.place = place
        self._page = page
        self._group = group
        self._output = output
        self._clock = clock
        self._look_s = look_s
        self._limits = limits
        self._overseer: Overseer | None = None
        self._condemned: dict[int, Condemned] = {}
        self._began_s = clock.monotonic_s()
        self._kills_before = cgroups.memory_kills()  # once the workers start: nobody waits for it
        self._ends: list[WorkerEnd] = []
        self._is_over = False
        self._began_s = clock.monotonic_s()

    @classmethod
    def start(
        cls,
        plan: Plan,
        agreed: Round,
        seat: tuple[int, str, int],
        *,
        marker: str,
        guard: Guard | None,
        clock: Clock,
    ) -> LocalRound:
        """Start the workers; `seat` is attempt, node and group rank. Raises `OSError`, all undone."""
        attempt, node, group_rank = seat
        page = Page.create(plan.seat.slots)
        try:
            place = worker_starts.place_of(plan, agreed, attempt, node, page)
            logs = worker_starts.make_folders(plan, place, group_rank)
            starts = worker_starts.starts_of(plan, place, ranks.of_node(agreed, group_rank), logs)
            output = RoundOutput.open(plan, starts, logs)
            group = _group(plan, starts, page, output, marker=marker, guard=guard)
        except BaseException:
            page.close()
            raise
        output.start()
        look_s, limits = plan.monitor_interval_s, plan.limits
        return cls(place, page, group, output, clock, look_s=look_s, limits=limits)

    def pids(self) -> list[int]:
        """The process ids of the workers."""
        return list(self._group.pids().values())

    def look(self, *, told: bool) -> list[Input]:
        """What happened to the workers since the last look; `told` that they had to stop."""
        if self._is_over:
            return []
        now_s = self._clock.monotonic_s()
        state = self._group.advance(now_s)
        if state.phase is GroupPhase.EXITED:  # sweep what they left behind, at once
            state = self._group.begin_stop(now_s + 1.0, now_s)
        news: list[Input] = []
        for each in state.exits[len(self._ends) :]:
            # Judged once, when it is seen: what ended before the notice was done, not saved.
            end = self._end(each, told)
            self._ends.append(end)
            if end.how is How.FAILED and each.local_rank not in self._condemned:
                news.append(WorkerFailed(end))
        if state.phase is GroupPhase.RUNNING and not told:
            news += self._ended_by_us(state.running)
        if state.is_over:
            self._is_over = True
            news.append(self._last_word(state))
        return news

    @property
    def is_over(self) -> bool:
        """Whether `look` has told that the workers are gone or stuck."""
        return self._is_over

    def look_within_s(self) -> float:
        """How soon `look` has to be called again, whatever is heard."""
        if self._group.poll().phase is GroupPhase.STOPPING:
            return _STOPPING_LOOK_S
        return self._look_s if self._overseer is None else self._overseer.look_within_s()

    def warn(self, reason: Reason, deadline_s: float) -> None:
        """Tell the workers: the flag, the notice file, then SIGTERM to those without a context."""
        self._page.raise_notice(reason.value, deadline_s)
        self._write_notice(reason, deadline_s)
        plain = [slot for slot, view in enumerate(self._page.ranks()) if not view.attached]
        self._group.ask(plain)

    def highest_step(self) -> int | None:
        """The highest step of our ranks; None where none has a context."""
        return self._page.highest_step()

    def progress(self) -> int:
        """The highest step that our ranks said they had done or saved; -1 where none did."""
        return max(max(view.progress, view.saved_step) for view in self._page.ranks())

    def ran_s(self) -> float:
        """How long ago our workers were started."""
        return self._clock.monotonic_s() - self._began_s

    def how_far(self) -> pulse.Progress:
        """How far our ranks have come and what they have saved."""
        return pulse.of_ranks(self._page.ranks())

    def pass_stop_step(self, step: int) -> None:
        """Tell our ranks where to stop."""
        self._page.set_stop_step(step)

    def stop(self, kill_at_s: float) -> None:
        """Ask all workers to end, and kill at `kill_at_s`; `look` tells when it is over."""
        self._group.begin_stop(kill_at_s, self._clock.monotonic_s())
        # A rank with a context holds TERM, because Slurm sends one to everybody long before the end.
        self._group.hang_up(slot for slot, view in enumerate(self._page.ranks()) if view.holds_term)

    def kill(self) -> None:
        """Kill everything and wait for it, bounded: only for an agent that cannot go on."""
        state = self._group.begin_stop(0.0, self._clock.monotonic_s())
        while not state.is_over:
            self._clock.sleep_s(0.01)
            state = self._group.advance(self._clock.monotonic_s())

    def close(self) -> bool:
        """Let go of everything, once `look` has told that the workers are gone or stuck.

        False where the console has not taken all of their output.
        """
        is_shown = self._output.finish()
        self._page.close()
        return is_shown

    def log_of(self, end: WorkerEnd) -> LogFiles:
        """The log files of one of our ranks."""
        return LogFiles.of(self.logs, end.global_rank)

    @property
    def logs(self) -> Path:
        """The folder of the ranks' log files."""
        return self.place.directory.logs(self.place.attempt, self.place.agreed.number)

    def _ended_by_us(self, running: tuple[int, ...]) -> list[WorkerFailed]:
        """Kill the ranks that do not go on; their failure is told at once, their end when it is seen."""
        if self._overseer is None:
            if self._limits is None and not self._page.has_scopes():
                return []
            self._overseer = self._made_overseer()
        found = []
        for each in self._overseer.look(slot for slot in running if slot not in self._condemned):
            self._condemned[each.slot] = each
            self._group.kill(each.slot)
            rank = self._group.global_ranks()[each.slot]
            found.append(
                WorkerFailed(self._end(WorkerExit(each.slot, rank, 0, -signal.SIGKILL, False), False))
            )
        return found

    def _made_overseer(self) -> Overseer:
        from hpc_elastic.agent.overseer import Overseer  # most rounds need none

        logs = {slot: LogFiles.of(self.logs, rank) for slot, rank in self._group.global_ranks().items()}
        return Overseer(self._limits, self._page, self._group, logs, look_s=self._look_s, clock=self._clock)

    def _last_word(self, state: GroupState) -> WorkersGone | WorkersStuck:
        if state.phase is GroupPhase.STUCK:
            left = tree.describe(state.stuck)
            return WorkersStuck(f"killed, but still there: {left}")
        return WorkersGone(tuple(self._ends))

    def _end(self, ended: WorkerExit, told: bool) -> WorkerEnd:
        view = self._page.rank(ended.local_rank)
        how = judge(
            ended.returncode, told=told or ended.was_asked, attached=view.attached, leaving=view.leaving
        )
        message = "" if ended.returncode == 0 else self._message(ended)
        condemned = self._condemned.get(ended.local_rank)
        return WorkerEnd(
            ended.local_rank,
            ended.global_rank,
            ended.returncode,
            how,
            message,
            progress=view.progress,
            saved_step=view.saved_step,
            is_plain=not view.attached,
            cause=Cause.WORKER_FAILED if condemned is None else condemned.cause,
        )

    def _message(self, ended: WorkerExit) -> str:
        if ended.local_rank in self._condemned:
            return self._condemned[ended.local_rank].message[:_MESSAGE_CHARS]
        folder = self.place.directory.errors(self.place.attempt, self.place.agreed.number)
        report = read_error(folder / f"{ended.global_rank}.json")
        text = report.message if report is not None else describe_exit(ended.returncode)
        if ended.was_asked or cgroups.memory_kills() == self._kills_before:
            return text[:_MESSAGE_CHARS]
        from hpc_elastic.agent import oom

        kills = oom.seen_since(self._kills_before, self._began_s)
        return oom.explained(text[:_MESSAGE_CHARS], ended.returncode, ended.pid, kills)

    def _write_notice(self, reason: Reason, deadline_s: float) -> None:
        left_s = max(0.0, deadline_s - self._clock.monotonic_s())
        deadline = datetime.fromisoformat(self._clock.utc_now()) + timedelta(seconds=left_s)
        content = {
            "reason": reason.value,
            "seconds_left": round(left_s, 3),
            "deadline": deadline.isoformat(timespec="seconds"),
            "round": self.place.agreed.number,
        }
        path = self.place.directory.notice(self.place.attempt, self.place.agreed.number, self.place.node)
        _replace(path, json.dumps(content))


def _group(
    plan: Plan,
    starts: list[WorkerStart],
    page: Page,
    output: RoundOutput,
    *,
    marker: str,
    guard: Guard | None,
) -> WorkerGroup:
    try:
        return WorkerGroup.start(plan.program, starts, marker=marker, pass_fds=(page.fd,), guard=guard)
    except OSError:
        output.finish()
        raise


def _replace(path: Path, text: str) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(path)
    except OSError:
        # A full disk or a lost mount must not keep the workers from being warned by flag and signal.
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
