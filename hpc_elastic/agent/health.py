"""The health command: asked before each join whether this node may take part. Only `end` waits."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hpc_elastic.agent import environment
from hpc_elastic.clock import Clock
from hpc_elastic.locking.passing import persist
from hpc_elastic.values import dataclass
from hpc_elastic.workers import tree
from hpc_elastic.workers.failures import describe_exit
from hpc_elastic.workers.group import GroupPhase, GroupState, WorkerGroup, WorkerStart
from hpc_elastic.workers.guard import Guard
from hpc_elastic.workers.logs import last_lines
from hpc_elastic.workers.process import Kind, Program

if TYPE_CHECKING:
    from hpc_elastic.agent.plan import Plan

_SWEEP_S: Final = 1.0
_DOUBT_S: Final = 0.5  # within which a signal to the whole job step is heard by its agent too
_SHELL: Final = "/bin/sh"


@dataclass(frozen=True)
class HealthCommand:
    """A line for the shell that ends with 0 on a node that is well, and how long it may take."""

    line: str
    timeout_s: float


@dataclass(frozen=True)
class Verdict:
    """What a check has found. `why` is empty for a node that is well."""

    is_well: bool
    why: str = ""


class HealthCheck:
    """One run of the command, in a session of its own, with all that it starts."""

    def __init__(self, command: HealthCommand, log: Path, group: WorkerGroup, clock: Clock) -> None:
        self._command = command
        self._log = log
        self._group = group
        self._clock = clock
        self._until_s = clock.monotonic_s() + command.timeout_s
        self._over_at_s: float | None = None

    @classmethod
    def start(
        cls,
        command: HealthCommand,
        plan: Plan,
        node: str,
        attempt: int,
        *,
        marker: str,
        guard: Guard | None,
        clock: Clock,
    ) -> HealthCheck:
        """Run `command`, its output appended to the node's log of this attempt. Raises `OSError`."""
        log = plan.directory.health(attempt, plan.seat.name)
        persist(partial(log.parent.mkdir, mode=0o700, parents=True, exist_ok=True))
        env = environment.of_health_command(plan.environment, plan.run_id, plan.directory, attempt, node)
        program = Program(Kind.COMMAND, _SHELL, ("-c", command.line))
        group = WorkerGroup.start(program, [WorkerStart(0, 0, env, log, log)], marker=marker, guard=guard)
        return cls(command, log, group, clock)

    def look(self) -> Verdict | None:
        """What was found, once it was; never later than the command's time."""
        now_s = self._clock.monotonic_s()
        state = self._group.advance(now_s)
        if state.phase is GroupPhase.RUNNING and now_s >= self._until_s:
            self._group.begin_stop(now_s, now_s)
            return self._unwell(f"did not end within {self._command.timeout_s:g} s")
        if state.phase is GroupPhase.EXITED:  # what it left behind ends with it
            state = self._group.begin_stop(min(now_s + _SWEEP_S, self._until_s), now_s)
        if not state.is_over:
            return None
        self._over_at_s = self._over_at_s or now_s
        is_in_doubt = state.exits[0].returncode < 0 and now_s < min(self._over_at_s + _DOUBT_S, self._until_s)
        return None if is_in_doubt else self._verdict(state)

    def end(self) -> None:
        """Kill it and wait until it is gone, bounded."""
        state = self._group.begin_stop(0.0, self._clock.monotonic_s())
        while not state.is_over:
            self._clock.sleep_s(0.01)
            state = self._group.advance(self._clock.monotonic_s())

    def _verdict(self, state: GroupState) -> Verdict:
        if state.phase is GroupPhase.STUCK:
            return self._unwell(f"left what cannot be killed: {tree.describe(state.stuck)}")
        returncode = state.exits[0].returncode
        return Verdict(True) if returncode == 0 else self._unwell(describe_exit(returncode))

    def _unwell(self, what: str) -> Verdict:
        said = "".join(f": {line.strip()}" for line in last_lines(self._log, 1))
        return Verdict(
            False, f"health command `{self._command.line}` {what}{said}; all of its output is in {self._log}"
        )
