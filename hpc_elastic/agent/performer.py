"""Carrying out what the agent's machine orders, on the record, the workers and the console."""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING, Final

from hpc_elastic.agent import actions, voice
from hpc_elastic.agent.inputs import HealthFailed, Input, SourceAnswered, StartFailed, WorkerEnd, WorkersGone
from hpc_elastic.agent.local_round import LocalRound
from hpc_elastic.agent.notices import NoticeSource
from hpc_elastic.agent.plan import Plan
from hpc_elastic.agent.signals import Mailbox
from hpc_elastic.clock import Clock
from hpc_elastic.exit_codes import ExitCode
from hpc_elastic.rendezvous.membership import Membership
from hpc_elastic.rendezvous.record import Outcome, Scope
from hpc_elastic.workers.group import new_marker
from hpc_elastic.workers.guard import Guard
from hpc_elastic.workers.streams import Std

if TYPE_CHECKING:
    from hpc_elastic.agent.health import HealthCheck

_LEAVE_S: Final = 5.0
_CRASH_LEAVE_S: Final = 1.0


class Performer:
    """Does what the machine orders; what follows at once waits in `pending` for the machine."""

    def __init__(
        self,
        plan: Plan,
        membership: Membership,
        mailbox: Mailbox,
        source: NoticeSource,
        clock: Clock,
        say: voice.Say,
    ) -> None:
        self._plan = plan
        self._membership = membership
        self._mailbox = mailbox
        self._source = source
        self._clock = clock
        self._say = say
        self._marker = new_marker()
        self._guard: Guard | None = None
        self._last_failure = self._last_log = ""
        self._check: HealthCheck | None = None
        self.round: LocalRound | None = None
        self.pending: deque[Input] = deque()
        self.exit_code = int(ExitCode.FAILED)
        self.farewell = ""

    def start_guard(self) -> None:
        """Let a process outlive this one by a moment if it is killed, to end what workers started."""
        try:
            self._guard = Guard.start(self._marker)
        except OSError:
            self._guard = None  # workers still end with this process; only their helpers might not

    def end_all(self) -> None:
        """Leave no process behind, whatever happened."""
        if self._check is not None:
            self._check.end()
        if self.round is not None:
            self.round.kill()
            self._close_round()
        if self._guard is not None:
            self._guard.close()

    def crash(self, why: str) -> None:
        """Tell the others that this agent cannot go on, so that they need not wait for silence."""
        self._membership.leave(Outcome.FAILED, why, _CRASH_LEAVE_S)

    def perform(self, action: actions.Action) -> None:
        """Do it, without waiting for anything but the record when leaving."""
        match action:
            case actions.Join():
                self._close_round()
                self._join()
            case actions.StartWorkers():
                self._start_workers()
            case actions.EndRound():
                self._end_round(action)
            case actions.MarkDone():
                self._close_round()
                self._membership.mark_done()
            case actions.Leave():
                self._leave(action)
            case actions.Announce() | actions.AskSource() | actions.BetterNotice():
                self._pass_notice(action)
            case _:
                self._pass_to_workers(action)

    @property
    def is_checking(self) -> bool:
        """Whether the health command runs, so that `look_at_health` has to be called often."""
        return self._check is not None

    def look_at_health(self) -> None:
        """Join once the health command has found this node well; else tell the machine."""
        verdict = None if self._check is None else self._check.look()
        if verdict is None:
            return
        if verdict.is_well:
            self._check = None
            self._membership.join()
        else:
            self.pending.append(HealthFailed(verdict.why))

    def _join(self) -> None:
        if self._plan.health is None:
            self._membership.join()
            return
        from hpc_elastic.agent.health import HealthCheck

        standing = self._membership.standing()
        try:
            self._check = HealthCheck.start(
                self._plan.health,
                self._plan,
                standing.node,
                standing.attempt,
                marker=self._marker,
                guard=self._guard,
                clock=self._clock,
            )
        except OSError as refused:  # it says nothing about the node: the run does not depend on it
            self._say(f"the health command could not be run ({refused}); this node joins without it")
            self._membership.join()

    def _pass_notice(self, action: actions.Announce | actions.AskSource | actions.BetterNotice) -> None:
        match action:
            case actions.Announce(heard):
                self._say(voice.heard(heard.signal, heard.reason, heard.seconds_left))
                self._membership.announce(heard.reason, heard.scope, heard.seconds_left, heard.signal)
            case actions.AskSource():
                threading.Thread(target=self._ask, name="notice-source", daemon=True).start()
            case actions.BetterNotice(bettered, heard):
                scope = Scope.RUN if heard is None else heard.scope
                name = "" if heard is None else heard.signal
                self._membership.better_notice(bettered.reason, scope, bettered.seconds_left, name)

    def _pass_to_workers(
        self,
        action: actions.WarnWorkers | actions.ReportStep | actions.PassStopStep | actions.StopWorkers,
    ) -> None:
        match action:
            case actions.ReportStep():
                step = None if self.round is None else self.round.highest_step()
                self._membership.report_step(step)
            case actions.WarnWorkers(reason, deadline_s) if self.round is not None:
                self._say(voice.asking(reason, deadline_s - self._clock.monotonic_s()))
                self.round.warn(reason, deadline_s)
            case actions.PassStopStep(step) if self.round is not None:
                self.round.pass_stop_step(step)
            case actions.StopWorkers(kill_at_s) if self.round is not None:
                self.round.stop(kill_at_s)
            case actions.StopWorkers():
                self.pending.append(WorkersGone(()))
            case _:
                return  # no workers to tell

    def _start_workers(self) -> None:
        standing = self._membership.standing()
        if standing.round is None or standing.rank is None:
            return
        self._say(voice.round_started(standing.round, standing.rank))
        self._guard = self._guard and self._guard.renewed()
        try:
            self.round = LocalRound.start(
                self._plan,
                standing.round,
                (standing.attempt, standing.node, standing.rank),
                marker=self._marker,
                guard=self._guard,
                clock=self._clock,
            )
        except OSError as refused:
            self.pending.append(StartFailed(str(refused)))

    def _end_round(self, action: actions.EndRound) -> None:
        worker = action.worker
        if worker is None:
            self._membership.end_round(action.cause, message=action.message)
            return
        local = self.round
        self._membership.end_round(
            action.cause,
            rank=worker.global_rank,
            exit_code=worker.returncode,
            message=action.message,
            step=-1 if local is None else local.progress(),
            ran_s=0.0 if local is None else round(local.ran_s(), 3),
        )
        self._say_failure(worker)

    def _say_failure(self, worker: WorkerEnd) -> None:
        files = None if self.round is None else self.round.log_of(worker)
        self._say(voice.worker_failed(worker, files))
        # What stands here already, shown while it was printed or after the last failure, is not said again.
        is_on_console = self._plan.console.shows(worker.local_rank, worker.global_rank) == Std.ALL
        if files is not None and not is_on_console and worker.message != self._last_failure:
            for line in voice.end_of_log(files):
                self._say(line)
        self._last_failure = worker.message
        self._last_log = "" if files is None else f"; its log is {files.err}"

    def _ask(self) -> None:
        try:
            answer = self._source.ask()
        except Exception:  # noqa: BLE001 (a thread must not end silently; no answer is an answer)
            answer = None
        self.pending.append(SourceAnswered(answer))
        self._mailbox.wake()

    def _leave(self, action: actions.Leave) -> None:
        self._close_round()
        if not self._membership.leave(action.outcome, action.message, _LEAVE_S):
            self._say("the record did not take our leave; the others will miss our beat")
        self._say(f"{action.message}{self._last_log if action.names_log else ''}")
        self.exit_code = int(action.exit_code)
        self.farewell = action.message

    def _close_round(self) -> None:
        if self.round is not None:
            if not self.round.close():
                self._say(voice.unshown(self.round.logs))
            self.round = None
