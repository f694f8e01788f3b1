"""`hpc-elastic run --json`: how it ended as one JSON object, with standard output to itself."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from hpc_elastic.errors import HpcElasticError
from hpc_elastic.exit_codes import ExitCode
from hpc_elastic.rendezvous import keys

if TYPE_CHECKING:
    from hpc_elastic.agent.plan import Plan
    from hpc_elastic.cli.run import Ending
    from hpc_elastic.rendezvous.record import Closed, End
    from hpc_elastic.rendezvous.standing import Standing

_STDOUT: Final = 1
_STDERR: Final = 2


def alone_on_stdout(plan: Plan, take_part: Callable[[], Ending]) -> int:
    """Take part, tell on standard output how that ended, and give the status.

    Meanwhile standard output leads to standard error: so workers' output and the object cannot mix. An error
    that ends it is told as well, before it is raised.
    """
    kept = os.dup(_STDOUT)
    os.dup2(_STDERR, _STDOUT)
    try:
        ending = take_part()
    except HpcElasticError as failed:
        _write(kept, of_error(plan, failed))
        raise
    _write(kept, of_ending(plan, ending))
    return ending.status


def of_ending(plan: Plan, ending: Ending) -> dict[str, Any]:
    """What is told of an agent that has left."""
    standing = ending.standing
    root_cause = _root_cause(plan, standing)
    is_a_workers = root_cause is not None and ending.status == ExitCode.USAGE
    return {
        **_told(plan, ending.status, ending.message),
        **({"outcome": "failed"} if is_a_workers else {}),
        "attempt": standing.attempt,
        "round": None if standing.round is None else standing.round.number,
        "restarts": {"failures": standing.failures, "changes": standing.changes},
        "root_cause": root_cause,
    }


def of_error(plan: Plan, failed: HpcElasticError) -> dict[str, Any]:
    """What is told where an agent could not take part."""
    told = _told(plan, int(failed.exit_code), str(failed))
    return {**told, "attempt": None, "round": None, "restarts": None, "root_cause": None}


def _told(plan: Plan, status: int, message: str) -> dict[str, Any]:
    known = {int(code): code.name.lower() for code in ExitCode}
    return {
        "run": plan.run_id,
        "directory": str(plan.directory.path),
        "node": plan.seat.name,
        "status": status,
        "outcome": known.get(status, "failed"),
        "message": message,
    }


def _root_cause(plan: Plan, standing: Standing) -> dict[str, Any] | None:
    """The failure that the run came to its end by, on whatever node; None where it was none."""
    closed, end = standing.closed, standing.end
    if closed is None or closed.succeeded or closed.rank < 0:
        return None
    return {
        "node": closed.node,
        "rank": closed.rank,
        **_as_seen(plan, closed, end),
    }


def _as_seen(plan: Plan, closed: Closed, end: End | None) -> dict[str, Any]:
    """What the end of the last round says; null where this node left before it could read it."""
    if end is None or end.round != closed.last_round:
        return {
            "cause": None,
            "message": closed.message,
            "exit_code": None,
            "step": None,
            "log": None,
        }
    logs = plan.directory.logs(keys.attempt_of(end.node), end.round)
    return {
        "cause": end.cause.value,
        "message": end.message,
        "exit_code": end.exit_code,
        "step": end.step if end.step >= 0 else None,
        "log": str(logs / f"{closed.rank}.err"),
    }


def _write(fd: int, told: dict[str, Any]) -> None:
    """One line. That nobody takes it changes nothing about how the run has ended."""
    left = memoryview(f"{json.dumps(told)}\n".encode())
    try:
        while left:
            left = left[os.write(fd, left) :]
    except OSError as refused:
        print(f"hpc-elastic: standard output did not take the JSON: {refused.strerror}", file=sys.stderr)
