"""What a run left for its submitter: values, and the exception of the rank that failed first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hpc_elastic.agent.rundir import RunDirectory
from hpc_elastic.errors import RunCancelled, RunFailed
from hpc_elastic.rendezvous import keys
from hpc_elastic.rendezvous.record import Cause, End
from hpc_elastic.status.snapshot import RoundSnapshot, RunSnapshot
from hpc_elastic.submission.files import SubmissionFiles
from hpc_elastic.submission.states import JobState, Judgement
from hpc_elastic.workers import payload
from hpc_elastic.workers.failures import ErrorReport, describe_exit, read_error


class RemoteTraceback(Exception):
    """The traceback as the worker printed it: the cause of the exception that `result()` raises."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f'\n"""\n{self.text}"""'


@dataclass(frozen=True)
class Outcome:
    """The end of one run, read from its directory."""

    files: SubmissionFiles
    snapshot: RunSnapshot
    judgement: Judgement
    log: str

    @property
    def last_round(self) -> RoundSnapshot | None:
        """The round that succeeded or failed."""
        closed = self.judgement.closed
        return self.snapshot.round(closed.last_round) if closed else self.snapshot.last_round

    @property
    def world_size(self) -> int:
        """The number of workers of that round."""
        return self.last_round.proposal.world_size if self.last_round else 0

    def has_value(self, rank: int) -> bool:
        """Whether the value of `rank` can be seen from here by now."""
        return self.last_round is not None and self.files.result(self.last_round.number, rank).exists()

    def value(self, rank: int) -> Any:
        """What the function returned on `rank`; raises RunFailed where it returned nothing."""
        if self.last_round is None:
            raise RunFailed(f"the run is done, but {self.files.run_dir} has no round; were files removed?")
        path = self.files.result(self.last_round.number, rank)
        try:
            raw = path.read_bytes()
        except FileNotFoundError:
            raise RunFailed(
                f"rank {rank} ended with status 0 but did not return ({path} is missing): "
                "the function ended its process itself; return instead of sys.exit()"
            ) from None
        try:
            return payload.unpack_value(raw)
        except (Exception, SystemExit) as why:  # loading runs code that the worker chose
            raise RunFailed(
                f"the value of rank {rank} cannot be loaded here ({type(why).__name__}: {why}); "
                f"it is in {path}: load it where its modules can be imported"
            ) from why

    def failure(self) -> BaseException | None:
        """What `result()` raises for this end, None for a success."""
        state, why = self.judgement.state, self.judgement.why
        if state is JobState.COMPLETED:
            return None
        if state is JobState.CANCELLED:
            return RunCancelled(
                f"the run was cancelled ({why}); its record and logs are in {self.files.run_dir}"
            )
        end = self.last_round.end if self.last_round and self.judgement.closed else None
        if end is not None and end.cause.is_failure and end.rank >= 0 and self.last_round:
            return self._of_a_rank(end, self.last_round)
        return RunFailed(f"the run ended {state.value}: {why}; see {self.log}")

    def _of_a_rank(self, end: End, seen: RoundSnapshot) -> BaseException:
        report = read_error(self.files.exception(_attempt(end), seen.number, end.rank).with_suffix(".json"))
        where = f"rank {end.rank} on {_name(seen, end.node)}, round {seen.number}"
        if end.cause is not Cause.WORKER_FAILED:
            return RunFailed(f"{where} was ended: {end.message}")
        if report is None:
            how = describe_exit(end.exit_code)
            logs = RunDirectory(self.files.run_dir).logs(_attempt(end), seen.number)
            return RunFailed(f"{where} {how} without an exception; its output is in {logs}/{end.rank}.err")
        exception = self._exception(seen, end, report) or RunFailed(f"{where}: {report.message}")
        exception.__cause__ = RemoteTraceback(f"{where}:\n{report.traceback or report.message}")
        return exception

    def _exception(self, seen: RoundSnapshot, end: End, report: ErrorReport) -> BaseException | None:
        """The very exception, or None where it could not travel or does not belong to the report."""
        try:
            found = payload.unpack_value(
                self.files.exception(_attempt(end), seen.number, end.rank).read_bytes()
            )
        except (Exception, SystemExit):  # noqa: BLE001 - a foreign class may raise anything; the report says it too
            return None
        is_it = isinstance(found, BaseException) and report.type.endswith(type(found).__qualname__)
        return found if is_it else None


def _attempt(end: End) -> int:
    """The attempt below which the failed node keeps its files: in a pool each has its own."""
    return keys.attempt_of(end.node)


def _name(seen: RoundSnapshot, node: str) -> str:
    return next((member.name for member in seen.members if member.node == node), node)
