"""What an agent says to the people who read its output: one line per turn of events."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from hpc_elastic.agent.inputs import WorkerEnd
from hpc_elastic.agent.plan import Plan
from hpc_elastic.agent.ranks import of_node
from hpc_elastic.rendezvous.record import Reason, Round
from hpc_elastic.workers.logs import LogFiles, last_lines

Say = Callable[[str], None]

_SHOWN_LINES: Final = 12
# Joining usually takes milliseconds; only a person who waits wants to know for whom.
_PATIENCE_S: Final = 3.0
_REPEAT_S: Final = 30.0


def banner(plan: Plan, attempt: int) -> str:
    """The first line of an agent."""
    settings = plan.settings
    nodes = _counted(settings.max_nodes, "node")
    if settings.max_nodes != settings.min_nodes:
        nodes = f"{settings.min_nodes} to {nodes}"
    restarts = f"{_counted(settings.max_restarts, 'restart')} after failures"
    return (
        f"run {plan.run_id}, attempt {attempt}: {nodes}, {seats(plan.seat.slots, plan.cpus)}, "
        f"{restarts}; run directory {plan.directory.path}"
    )


def seats(workers: int, cpus: int) -> str:
    """The workers of this node, and the CPUs that it is given for them."""
    given = f"{_counted(workers, 'worker')} on this one with {_counted(cpus, 'CPU')}"
    return given if cpus >= workers else f"{given} (few: ask srun for more with --cpus-per-task)"


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number or 'no'} {what}s"


def round_started(agreed: Round, group_rank: int) -> str:
    """A round as this node sees it."""
    mine = of_node(agreed, group_rank)
    first, last = mine[0].global_rank, mine[-1].global_rank
    ranks = f"rank {first}" if first == last else f"ranks {first} to {last}"
    why = f" ({agreed.why})" if agreed.why else ""
    nodes = _counted(len(agreed.members), "node")
    without = f"; without {', '.join(agreed.left_out)}, left out of the run" if agreed.left_out else ""
    return f"round {agreed.number}: {ranks} of {agreed.world_size} on {nodes}{why}{without}"


def heard(signal_name: str, reason: Reason, seconds_left: float) -> str:
    """A notice as it comes in; often its cause is asked for only then."""
    how = f"heard {signal_name}" if signal_name else "hands over to a successor"
    return f"{how}: {_cause(reason)}, {seconds_left:.0f} s left"


def unshown(logs: Path) -> str:
    """The console was too slow for the workers' last output."""
    return f"this console does not take all that the workers printed; it is in {logs}"


def asking(reason: Reason, seconds_left: float) -> str:
    """The notice passed on to the workers; said again when more is known."""
    return f"asking the workers to save and stop: {_cause(reason)}, {seconds_left:.0f} s left"


def _cause(reason: Reason) -> str:
    return "cause not known yet" if reason is Reason.UNKNOWN else reason.value


def worker_failed(end: WorkerEnd, files: LogFiles | None) -> str:
    """What is known of a failed worker, and where its log is."""
    if files is None:
        return f"the workers could not be started: {end.message}"
    return f"rank {end.global_rank} failed: {end.message}; its log is {files.err}"


def end_of_log(files: LogFiles) -> list[str]:
    """The last lines of a worker's log."""
    shown = last_lines(files.err, _SHOWN_LINES) or last_lines(files.out, _SHOWN_LINES)
    return [f"    {line}" for line in shown]


class Waiting:
    """Says whom a joining agent waits for: after a moment, on change, and now and then."""

    def __init__(self, say: Say) -> None:
        self._say = say
        self._since_s: float | None = None
        self._said = ""
        self._said_at_s = 0.0

    def over(self) -> None:
        """The agent no longer waits."""
        self._since_s = None
        self._said = ""

    def go_on(self, waiting_for: str, now_s: float) -> None:
        """The agent still waits."""
        if self._since_s is None:
            self._since_s = now_s
        if not waiting_for or now_s - self._since_s < _PATIENCE_S:
            return
        if waiting_for != self._said or now_s - self._said_at_s >= _REPEAT_S:
            self._say(waiting_for)
            self._said, self._said_at_s = waiting_for, now_s
