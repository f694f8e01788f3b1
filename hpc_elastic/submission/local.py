"""The supervisor of a local cluster: `python -m hpc_elastic.submission.local RUN_DIR`.

It stands where Slurm stands otherwise: starts one agent for each simulated node, tells them of a
preemption, starts them again when they left because of it, and ends them on a cancel. It belongs to
nobody's terminal, outlives the submitter, and leaves no process behind.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hpc_elastic.agent.rundir import RunDirectory
from hpc_elastic.backends.file import FileBackend
from hpc_elastic.clock import SYSTEM_CLOCK, Clock
from hpc_elastic.errors import BackendUnavailable
from hpc_elastic.exit_codes import ExitCode
from hpc_elastic.rendezvous import keys, outside
from hpc_elastic.rendezvous.record import Closed, Notice, Reason, Scope
from hpc_elastic.settings import MAX_RESTARTS
from hpc_elastic.status import snapshot
from hpc_elastic.status.losses import unsaved_losses
from hpc_elastic.status.snapshot import AttemptSnapshot, RunSnapshot
from hpc_elastic.submission.files import SubmissionFiles
from hpc_elastic.submission.states import JobState
from hpc_elastic.submission.supervisor_files import RUNNING, Plan, SupervisorState
from hpc_elastic.workers import tree

KILL_WAIT_S: Final = 35.0  # the agents' own shutdown timeout is 30 s
_REPEAT_S: Final = 1.0
_SWEEP_S: Final = 10.0  # a process stuck in the kernel does not hold up the end for ever
_CANCEL: Final = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT})
_PREEMPT: Final = frozenset({signal.SIGUSR1, signal.SIGUSR2})
_HEARD: Final = _CANCEL | _PREEMPT | {signal.SIGCHLD}
_PREEMPTED: Final = frozenset({ExitCode.SAVED, ExitCode.UNSAVED})
_PR_SET_PDEATHSIG: Final = 1


@dataclass(frozen=True)
class Again:
    """Start the next attempt."""


@dataclass(frozen=True)
class Over:
    """The job has come to its end."""

    state: JobState
    why: str


def decide(
    codes: Sequence[int],
    closed: Closed | None,
    *,
    is_cancelled: bool,
    is_told: bool,
    may_requeue: bool,
    losses: int = 0,
) -> Again | Over:
    """What follows an attempt whose agents have all ended with `codes` (negative: by a signal)."""
    if closed is not None and closed.succeeded:
        return Over(JobState.COMPLETED, "the run is done")
    if closed is not None:
        return Over(JobState.FAILED, closed.message or f"the run failed with {closed.exit_code}")
    if is_cancelled:
        return Over(JobState.CANCELLED, "cancelled")
    shown = ", ".join(map(str, codes))
    if losses > MAX_RESTARTS:
        return Over(JobState.FAILED, f"{losses} starts in a row lost an agent and saved nothing ({shown})")
    if is_told and _PREEMPTED & set(codes):
        return (
            Again()
            if may_requeue
            else Over(JobState.PREEMPTED, f"preempted, and not to be requeued ({shown})")
        )
    return Over(JobState.FAILED, f"the agents ended with {shown}; see their logs")


class Supervisor:
    """Runs attempts until the job is over."""

    def __init__(self, files: SubmissionFiles, plan: Plan, clock: Clock = SYSTEM_CLOCK) -> None:
        self._files = files
        self._plan = plan
        self._clock = clock
        self._agents: list[subprocess.Popen[bytes]] = []
        self._restart_count = 0
        self._is_cancelled = False
        self._is_preempted = False
        self._kill_at_s: float | None = None
        self._tell_at_s: float | None = None

    def run(self) -> None:
        """Live through all attempts. Signals are blocked and taken one by one, never handled."""
        while True:
            self._start()
            self._say(RUNNING, f"attempt with restart count {self._restart_count}")
            while any(agent.poll() is None for agent in self._agents):
                self._hear()
                self._act()
            _sweep(self._clock)
            step = self._next()
            if isinstance(step, Over):
                if step.state is JobState.CANCELLED:
                    self._note_cancel(self._attempt(snapshot.read(self._files.run_dir)))
                self._say(step.state.value, step.why)
                return
            self._restart_count += 1

    def _start(self) -> None:
        self._is_preempted, self._tell_at_s = False, None
        self._agents = [self._start_agent(index) for index in range(self._plan.nodes)]

    def _start_agent(self, index: int) -> subprocess.Popen[bytes]:
        name = f"local{index}"
        environment = {
            **os.environ,
            "HPC_ELASTIC_NODE_NAME": name,
            "HPC_ELASTIC_NODE_INDEX": str(index),
            "HPC_ELASTIC_NODE_COUNT": str(self._plan.nodes),
            "HPC_ELASTIC_JOB_ID": self._plan.job_id,
            "HPC_ELASTIC_RESTART_COUNT": str(self._restart_count),
            "HPC_ELASTIC_ALLOW_LOOPBACK": "1",
        }
        script = "\n".join((*self._plan.setup, 'exec "$@"'))
        with open(self._files.folder / f"{name}.log", "ab") as log:
            return subprocess.Popen(
                ("bash", "-c", script, "agent", *self._plan.command)
                if self._plan.setup
                else self._plan.command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=_become_agent,  # noqa: PLW1509 - this process has one thread
            )

    def _hear(self) -> None:
        pause_s = _REPEAT_S if self._tell_at_s or self._kill_at_s else 10 * _REPEAT_S
        heard = signal.sigtimedwait(_HEARD, pause_s)
        now_s = self._clock.monotonic_s()
        if heard is None:
            return
        if heard.si_signo in _PREEMPT and not self._is_preempted:
            self._is_preempted, self._tell_at_s = True, now_s
        if heard.si_signo in _CANCEL and not self._is_cancelled:
            self._is_cancelled, self._kill_at_s = True, now_s + KILL_WAIT_S
            self._signal(signal.SIGTERM)

    def _act(self) -> None:
        now_s = self._clock.monotonic_s()
        if self._tell_at_s is not None and now_s >= self._tell_at_s:
            self._signal(signal.SIGUSR2)
            # An agent that does not listen yet ignores it: again, until one has put it on record.
            attempt = self._attempt(snapshot.read(self._files.run_dir))
            self._tell_at_s = None if attempt and attempt.notice else now_s + _REPEAT_S
        if self._kill_at_s is not None and now_s >= self._kill_at_s:
            self._signal(signal.SIGKILL)

    def _signal(self, signum: signal.Signals) -> None:
        for agent in self._agents:
            agent.send_signal(signum)  # nothing happens to one that has ended

    def _next(self) -> Again | Over:
        seen = snapshot.read(self._files.run_dir)
        attempt = self._attempt(seen)
        closed = seen.closed
        if (
            closed is not None
            and not closed.succeeded
            and (attempt is None or closed.attempt < attempt.number)
        ):
            closed = None
        is_told = attempt is not None and attempt.notice is not None
        return decide(
            [agent.wait() for agent in self._agents],
            closed,
            is_cancelled=self._is_cancelled or _is_ordered(attempt),
            is_told=is_told,
            may_requeue=self._plan.requeue,
            losses=unsaved_losses(seen),
        )

    def _attempt(self, seen: RunSnapshot) -> AttemptSnapshot | None:
        mine = (self._plan.job_id, self._restart_count)
        return next(
            (one for one in seen.attempts if (one.start.job_id, one.start.restart_count) == mine), None
        )

    def _note_cancel(self, attempt: AttemptSnapshot | None) -> None:
        """Better what the agents have put on record, who cannot know why they are told to end."""
        why = attempt.why_stopped if attempt is not None else None
        if attempt is None or (why is not None and why.reason is not Reason.UNKNOWN):
            return
        now, writer = self._clock.utc_now(), f"supervisor-{os.getpid():x}"
        told = Notice(attempt.number, Reason.CANCELLED, Scope.RUN, 0.0, "", "SIGTERM", now, writer)
        backend = FileBackend(RunDirectory(self._files.run_dir).record)
        try:
            with contextlib.suppress(BackendUnavailable):
                outside.put(backend, keys.cause_key(attempt.number), told)
        finally:
            backend.close()

    def _say(self, state: str, why: str) -> None:
        if not self._files.folder.is_dir():
            return  # the run was removed, and a word would make its directory again
        myself = tree.look_at(os.getpid())
        SupervisorState(
            host=socket.gethostname(),
            pid=os.getpid(),
            start_ticks=myself.start_ticks if myself else 0,
            state=state,
            why=why,
            restart_count=self._restart_count,
            agents=tuple(agent.pid for agent in self._agents) if state == RUNNING else (),
        ).write(self._files)


def _is_ordered(attempt: AttemptSnapshot | None) -> bool:
    """Whether somebody has said through the record that the run is to stop for good."""
    why = attempt.why_stopped if attempt else None
    return why is not None and why.reason is Reason.CANCELLED


def _become_agent() -> None:
    """In the child: signals as a fresh process has them, notices apart; end in good order with us."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    for signum in _CANCEL:
        signal.signal(signum, signal.SIG_DFL)
    for signum in _PREEMPT:
        signal.signal(signum, signal.SIG_IGN)  # until the agent listens; by default it would end
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _sweep(clock: Clock) -> None:
    """End what the agents left: orphans come to this process, which is their sub-reaper."""
    give_up_at_s = clock.monotonic_s() + _SWEEP_S
    while clock.monotonic_s() < give_up_at_s:
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG) != (0, 0):
                pass
        left = _descendants(os.getpid(), tree.snapshot())
        if not left:
            return
        for process in left:
            tree.send(process, signal.SIGKILL)
        clock.sleep_s(0.02)


def _descendants(pid: int, processes: Sequence[tree.Process]) -> list[tree.Process]:
    found, parents = [], {pid}
    while parents:
        children = [each for each in processes if each.parent in parents]
        found += [each for each in children if each.is_alive]
        parents = {each.pid for each in children}
    return found


def main(arguments: Sequence[str]) -> None:
    """Detach, and supervise the plan in the run directory."""
    files = SubmissionFiles(Path(arguments[0]))
    os.setsid()
    signal.pthread_sigmask(signal.SIG_BLOCK, _HEARD)
    tree.become_subreaper()
    Supervisor(files, Plan.read(files)).run()


if __name__ == "__main__":
    main(sys.argv[1:])
