"""The workers of one node in one round, as one thing: started, watched and stopped together.

Nothing here waits. The agent calls `poll` when a child has ended and `advance` while it stops the
group; both return at once with what is known.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from pathlib import Path

from hpc_elastic.values import dataclass, field
from hpc_elastic.workers import bootstrap, tree
from hpc_elastic.workers.guard import Guard
from hpc_elastic.workers.process import Kind, Program, WorkerProcess
from hpc_elastic.workers.shutdown import StopPlan, StopStep, SweepPlan


@dataclass(frozen=True)
class WorkerStart:
    """What one worker is started with; `cpus` are those it may run on, None for all of this process's."""

    local_rank: int
    global_rank: int
    env: Mapping[str, str]
    stdout_path: Path
    stderr_path: Path
    cpus: frozenset[int] | None = None


@dataclass(frozen=True)
class WorkerExit:
    """How one worker ended. `was_asked`: after we had told it to stop."""

    local_rank: int
    global_rank: int
    pid: int
    returncode: int
    was_asked: bool


class GroupPhase(Enum):
    """How far the group is."""

    RUNNING = "running"  # at least one worker runs, nobody stops it
    EXITED = "exited"  # every worker has ended by itself; call `begin_stop` to sweep what they left
    STOPPING = "stopping"  # `begin_stop` was called; call `advance`
    GONE = "gone"  # nothing of the group is left
    STUCK = "stuck"  # killed, and still there: see `GroupState.stuck`


@dataclass(frozen=True)
class GroupState:
    """The group as last looked at. `exits` are in the order in which they were seen."""

    phase: GroupPhase
    running: tuple[int, ...]
    exits: tuple[WorkerExit, ...]
    stuck: tuple[tree.Process, ...] = ()

    @property
    def is_over(self) -> bool:
        """Whether there is nothing more to wait for."""
        return self.phase in (GroupPhase.GONE, GroupPhase.STUCK)

    @property
    def first_failure(self) -> WorkerExit | None:
        """The first worker that ended badly by itself."""
        return next((each for each in self.exits if each.returncode != 0 and not each.was_asked), None)


@dataclass
class _Worker:
    local_rank: int
    global_rank: int
    process: WorkerProcess
    was_asked: bool = False
    ended: bool = False


@dataclass
class WorkerGroup:
    """Local workers of one round. `marker` names everything that they start, in its environment."""

    marker: str
    dumps_stacks: bool
    guard: Guard | None = None
    _workers: list[_Worker] = field(default_factory=list)
    _exits: list[WorkerExit] = field(default_factory=list)
    _stop: StopPlan | None = None
    _sweep: SweepPlan | None = None
    _done: StopStep = StopStep.WAIT
    _terminated: set[tuple[int, int]] = field(default_factory=set)
    _phase: GroupPhase = GroupPhase.RUNNING
    _stuck: tuple[tree.Process, ...] = ()

    @classmethod
    def start(
        cls,
        program: Program,
        starts: Sequence[WorkerStart],
        *,
        marker: str,
        pass_fds: Sequence[int] = (),
        guard: Guard | None = None,
    ) -> WorkerGroup:
        """Start all workers, or none: `OSError` when one cannot be started, the others then killed.

        With a `guard` helpers of the workers end even when this process is killed with SIGKILL.

        To be called from a thread that lives as long as the workers shall (see `Program.argv`).
        """
        group = cls(marker, dumps_stacks=program.kind is not Kind.COMMAND, guard=guard)
        command = program.argv()
        try:
            for each in starts:
                process = WorkerProcess.start(
                    command,
                    env={**each.env, tree.MARKER_VARIABLE: marker},
                    stdout_path=each.stdout_path,
                    stderr_path=each.stderr_path,
                    pass_fds=pass_fds,
                    cpus=each.cpus,
                )
                group._workers.append(_Worker(each.local_rank, each.global_rank, process))
        except OSError:
            for worker in group._workers:
                worker.process.signal(signal.SIGKILL)
            raise
        if guard is not None:
            guard.watch(group.pids().values())
        return group

    def pids(self) -> dict[int, int]:
        """Process ids of all workers, ended ones included, by local rank."""
        return {worker.local_rank: worker.process.pid for worker in self._workers}

    def global_ranks(self) -> dict[int, int]:
        """The global ranks of all workers, by local rank."""
        return {worker.local_rank: worker.global_rank for worker in self._workers}

    def kill(self, local_rank: int) -> None:
        """Kill one worker and what is in its process group, at once."""
        for worker in self._running():
            if worker.local_rank == local_rank:
                worker.process.signal(signal.SIGKILL)

    def poll(self) -> GroupState:
        """Look at every worker, and collect ended orphans of theirs."""
        for worker in self._workers:
            returncode = None if worker.ended else worker.process.poll()
            if returncode is not None:
                worker.ended = True
                identity = (worker.local_rank, worker.global_rank, worker.process.pid)
                self._exits.append(WorkerExit(*identity, returncode, worker.was_asked))
        tree.reap_adopted(self._own_children())
        if self._phase is GroupPhase.RUNNING and not self._running():
            self._phase = GroupPhase.EXITED
        return self._state()

    def ask(self, local_ranks: Iterable[int] | None = None) -> None:
        """Send TERM (and CONT, so that a stopped one hears it) to the given workers, once each."""
        wanted = None if local_ranks is None else frozenset(local_ranks)
        self.poll()  # whoever has ended by now did so unasked
        for worker in self._running():
            if not worker.was_asked and (wanted is None or worker.local_rank in wanted):
                worker.was_asked = True
                worker.process.signal(signal.SIGTERM)
                worker.process.signal(signal.SIGCONT)

    def hang_up(self, local_ranks: Iterable[int]) -> None:
        """Send HUP to the running ones of the given workers: those that do not end on TERM."""
        wanted = frozenset(local_ranks)
        for worker in self._running():
            if worker.local_rank in wanted:
                worker.process.signal(signal.SIGHUP)

    def signal(self, signum: int) -> None:
        """Send to every running worker's group, without counting it as told to stop."""
        for worker in self._running():
            worker.process.signal(signum)

    def dump_stacks(self) -> None:
        """Let every running Python worker write the stacks of its threads to its error output.

        One that would end by the signal for it is spared: it has not come to its script yet, or has let
        another program take its place (`os.exec`).
        """
        if self.dumps_stacks:
            for worker in self._running():
                if tree.catches(worker.process.pid, bootstrap.DUMP_SIGNAL):
                    worker.process.signal_alone(bootstrap.DUMP_SIGNAL)

    def begin_stop(self, deadline_s: float, now_s: float) -> GroupState:
        """Ask all workers to stop, and kill what is left of them and their children at the deadline.

        Called again with an earlier deadline it hurries; a later one changes nothing. Also the way
        to sweep after workers that ended by themselves.
        """
        if self._stop is None:
            self._stop = StopPlan.by(deadline_s, now_s=now_s)
            self.ask()
            self._phase = GroupPhase.STOPPING
        else:
            self._stop = self._stop.hurried(deadline_s, now_s=now_s)
            self._sweep = self._sweep and self._sweep.hurried(deadline_s, now_s=now_s)
        return self.advance(now_s)

    def advance(self, now_s: float) -> GroupState:
        """Do what is due of the stop; call it often until the state `is_over`."""
        self.poll()
        if self._stop is None or self._phase is not GroupPhase.STOPPING:
            return self._state()
        if not self._running():
            self._sweep_once(self._stop, now_s)
        else:
            self._insist(self._stop.due(now_s))
        return self._state()

    def _insist(self, due: StopStep) -> None:
        if due is StopStep.DUMP and self._done < StopStep.DUMP:
            self.dump_stacks()
        elif due is StopStep.KILL:
            self.signal(signal.SIGKILL)
        elif due is StopStep.GIVE_UP:
            self._give_up(self._left_behind() or self._seen_workers())
        self._done = max(self._done, due)

    def _sweep_once(self, stop: StopPlan, now_s: float) -> None:
        left = self._left_behind()
        if not left:
            self._phase = GroupPhase.GONE
            return
        if self._sweep is None:
            self._sweep = SweepPlan.after(stop, now_s=now_s)
        due = self._sweep.due(now_s)
        if due is StopStep.GIVE_UP:
            self._give_up(left)
            return
        for each in left:
            self._end_straggler(each, insist=due is StopStep.KILL)
        tree.reap_adopted(self._own_children())

    def _end_straggler(self, target: tree.Process, *, insist: bool) -> None:
        identity = (target.pid, target.start_ticks)
        if insist:
            tree.send(target, signal.SIGKILL)
        elif identity not in self._terminated:
            self._terminated.add(identity)
            tree.send(target, signal.SIGTERM)
            tree.send(target, signal.SIGCONT)

    def _give_up(self, left: Sequence[tree.Process]) -> None:
        self._stuck = tuple(left)
        self._phase = GroupPhase.STUCK

    def _left_behind(self) -> list[tree.Process]:
        sessions = {worker.process.pid for worker in self._workers}
        return tree.left_behind(self.marker, sessions, self._guard_pid())

    def _seen_workers(self) -> list[tree.Process]:
        seen = [tree.look_at(worker.process.pid) for worker in self._running()]
        return [each for each in seen if each is not None]

    def _own_children(self) -> frozenset[int]:
        return self._guard_pid() | {worker.process.pid for worker in self._workers}

    def _guard_pid(self) -> frozenset[int]:
        return frozenset() if self.guard is None else frozenset({self.guard.pid})

    def _running(self) -> list[_Worker]:
        return [worker for worker in self._workers if not worker.ended]

    def _state(self) -> GroupState:
        running = tuple(worker.local_rank for worker in self._running())
        return GroupState(self._phase, running, tuple(self._exits), self._stuck)


def new_marker() -> str:
    """A fresh name for what one agent starts, unlike any other agent's."""
    return f"{os.getpid()}-{os.urandom(8).hex()}"
