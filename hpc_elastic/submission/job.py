"""The handle on a submitted run: state, results, logs, cancel; from any process, on any day."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from hpc_elastic.clock import SYSTEM_CLOCK, Clock
from hpc_elastic.errors import UsageError, WaitTimedOut
from hpc_elastic.slurm import commands
from hpc_elastic.slurm.commands import Runner
from hpc_elastic.status import continuations, logs, snapshot
from hpc_elastic.status.snapshot import RunSnapshot
from hpc_elastic.submission import guests
from hpc_elastic.submission.cancelling import keep_away
from hpc_elastic.submission.files import JobFile, SubmissionFiles
from hpc_elastic.submission.following import Following
from hpc_elastic.submission.future import FutureLike
from hpc_elastic.submission.local_control import LocalControl
from hpc_elastic.submission.orders import DRAIN_S, Orders
from hpc_elastic.submission.outcome import Outcome
from hpc_elastic.submission.request import LOCAL
from hpc_elastic.submission.slurm_control import SlurmControl
from hpc_elastic.submission.states import JobState, Judgement, Seen, Sight, judge

_FIRST_PAUSE_S: Final = 0.02
_LAST_PAUSE_S: Final = 1.0
_GROWTH: Final = 1.3
# The bell may be lost, so the record is read without it too, but not at every look.
_READ_EVERY_S: Final = 10.0
# An NFS client may deny a file that another node has made for as long as it caches the folder
# (up to 60 s). A function that returned nothing costs this time once.
_VISIBLE_AFTER_S: Final = 60.0


class Control(Protocol):
    """What runs the job: Slurm, or the supervisor of the local cluster."""

    def look(self) -> Seen:
        """What it shows of the job; never raises."""
        ...

    def follow(self, *jobs: str) -> None:
        """From now on it is about these jobs, which go on in the place of the one before."""
        ...

    def cancel(self) -> None:
        """End the job now."""
        ...

    def preempt(self) -> None:
        """Give the job notice; it saves, leaves and is started again."""
        ...


@dataclass(frozen=True)
class JobStatus:
    """One look at a job. Counts are of the whole run; `notice` is why its attempt has to stop.

    `job_id` is the job that the run is now, which differs from the one that was submitted where that could
    not come back and another one goes on in its place.
    """

    state: JobState
    why: str
    attempts: int
    round: int
    world_size: int
    failures: int
    changes: int
    notice: str
    job_id: str


class Job(FutureLike):
    """One submitted run. `submit` and `Job.attach` make it."""

    def __init__(
        self,
        files: SubmissionFiles,
        about: JobFile,
        control: Control,
        clock: Clock = SYSTEM_CLOCK,
        runner: Runner = commands.run,
    ) -> None:
        self._files = files
        self._about = about
        self._control = control
        self._clock = clock
        self._runner = runner
        self._snapshot: RunSnapshot | None = None
        self._bell = b""
        self._read_at_s = 0.0

    @classmethod
    def attach(cls, run_dir: str | os.PathLike[str]) -> Job:
        """The job that runs, or ran, in `run_dir`; raises UsageError where none was submitted there."""
        files = SubmissionFiles(Path(run_dir).expanduser().absolute())
        if not files.run_dir.is_dir():
            raise UsageError(f"there is no run directory {files.run_dir}; give the one that submit printed")
        about = JobFile.read(files.job)
        if about.cluster == LOCAL:
            return cls(files, about, LocalControl(files))
        control = SlurmControl(about.job_id, SYSTEM_CLOCK, is_array=about.is_pool, run_id=about.run_id)
        return cls(files, about, control)

    def __repr__(self) -> str:
        return f"Job(job_id={self.job_id!r}, run_id={self.run_id!r}, run_dir={str(self.run_dir)!r})"

    @property
    def job_id(self) -> str:
        """Slurm's number of the job that was submitted, after a requeue too; or the name of a local one.

        Where Slurm starts it no more, another job goes on with the run: `status().job_id`.
        """
        return self._about.job_id

    @property
    def run_id(self) -> str:
        """The name of the run."""
        return self._about.run_id

    @property
    def run_dir(self) -> Path:
        """Where everything about the run lies."""
        return self._files.run_dir

    @property
    def state(self) -> JobState:
        """What the job is doing, as far as its record and the cluster tell."""
        return self._judge(afresh=True).state

    def status(self) -> JobStatus:
        """The state with its reason, and where the run stands."""
        judgement = self._judge(afresh=True)
        seen = self._read()
        attempt, last = seen.last_attempt, seen.last_round
        stopped = attempt.why_stopped if attempt else None
        return JobStatus(
            state=judgement.state,
            why=judgement.why,
            attempts=len(seen.attempts),
            round=last.number if last else 0,
            world_size=last.proposal.world_size if last else 0,
            failures=last.proposal.failures if last else 0,
            changes=last.proposal.changes if last else 0,
            notice=stopped.reason.value if stopped else "",
            job_id=continuations.newest(seen, self.job_id, self._about.after_attempt),
        )

    def done(self) -> bool:
        """Whether the run has come to its end, good or bad."""
        return self.state.is_final

    def wait(self, timeout: float | None = None) -> JobState:
        """The final state; raises WaitTimedOut when it has not come in `timeout` seconds.

        Looks at the record gently and asks Slurm rarely; a requeue is no end.
        """
        return self._wait(timeout).state

    def result(self, timeout: float | None = None) -> Any:
        """What the function returned on rank 0 (None for a script).

        Raises what the rank that failed first raised, with its traceback as the cause; RunFailed or
        RunCancelled where no exception ended the run; WaitTimedOut when the end has not come.
        """
        outcome = self._succeeded(timeout)
        return self._value(outcome, 0) if self._about.calls_function else None

    def results(self, timeout: float | None = None) -> dict[int, Any]:
        """What the function returned on every rank, by global rank; raises as `result` does."""
        outcome = self._succeeded(timeout)
        ranks = range(outcome.world_size)
        return {rank: self._value(outcome, rank) if self._about.calls_function else None for rank in ranks}

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """What `result` would raise for the end of the run, or None for a success."""
        return self._outcome(self._wait(timeout)).failure()

    def logs(self, rank: int = 0, attempt: int = -1) -> str:
        """The output of one rank in one attempt, round by round, its stderr behind its stdout.

        A negative `attempt` counts from the newest that has output. Raises UsageError where there
        is none.
        """
        found = logs.find(self._files.run_dir, rank=rank, attempt=attempt)
        return "".join(one.path.read_text(errors="replace") for one in found)

    def follow(self, rank: int = 0, attempt: int = -1) -> Iterator[str]:
        """The lines of one rank as they come, its stderr too, until the run is over; over requeues.

        Begins with `attempt`, whose number may be negative as in `logs`. To stop earlier, leave the loop:
        the job goes on.
        """
        first = logs.resolve(self.run_dir, attempt)
        return Following(self.run_dir, rank, first).lines(self.done, self._clock)

    def cancel(self) -> None:
        """End the run now, as whatever job it goes on, and those that joined; nothing where it has ended."""
        if self.done():
            return
        if self._about.cluster != LOCAL:
            keep_away(self._read(afresh=True), self._about.after_attempt, self._clock)
            self._follow()
        self._control.cancel()
        guests.cancel(self._read(afresh=True), self._runner)

    def drain(self, seconds_left: float = DRAIN_S) -> str:
        """Let the workers save at an agreed step and stop, within `seconds_left`; nothing comes back.

        What was done, in a sentence. Raises RunOver where the run has ended, UsageError where nothing runs.
        """
        return Orders(self.run_dir, self._clock).drain(seconds_left)

    def preempt(self) -> None:
        """Rehearse a preemption: the workers get notice, save and leave, and the job comes back."""
        if self.done():
            raise UsageError(f"the run is {self.state.value}; only a running one can be preempted")
        self._follow()
        self._control.preempt()

    def kill_node(self, node: int | str) -> None:
        """For tests on `cluster="local"`: end a node (2 or "local2") as a loss of power does, without a word.

        Its agent and its workers are killed; the others find out by its silence. It is there again in the
        next attempt. Raises UsageError on Slurm, and where that node does not run.
        """
        if not isinstance(self._control, LocalControl):
            raise UsageError(
                f"kill_node({node!r}): job {self.job_id} runs on Slurm; on a sandbox use "
                "`hpc-elastic sandbox kill-node N`"
            )
        self._control.kill_node(node)

    def _wait(self, timeout: float | None) -> Judgement:
        begun_s = self._clock.monotonic_s()
        pause_s = _FIRST_PAUSE_S
        while True:
            judgement = self._judge()
            if judgement.state.is_final:
                return judgement
            left_s = float("inf") if timeout is None else begun_s + timeout - self._clock.monotonic_s()
            if left_s <= 0:
                raise WaitTimedOut(
                    f"the run is {judgement.state.value} after {timeout:g} s ({judgement.why}); "
                    f"wait longer, or look at {self.run_dir}"
                )
            self._clock.sleep_s(min(pause_s, left_s))
            pause_s = min(pause_s * _GROWTH, _LAST_PAUSE_S)

    def _judge(self, *, afresh: bool = False) -> Judgement:
        """The record first; the cluster is asked only where that has no end."""
        recorded = judge(self._read(afresh=afresh), self._about.after_attempt, Seen(Sight.UNSEEN))
        if recorded.state.is_final:
            return recorded
        jobs = self._follow()
        seen = self._control.look()
        if seen.sight in (Sight.ENDED, Sight.GONE):  # by then the record says whether another job goes on
            self._read(afresh=True)
            if self._follow() != jobs:
                seen = self._control.look()
        return judge(self._read(), self._about.after_attempt, seen)

    def _follow(self) -> tuple[str, ...]:
        """Look at the jobs that the run is by now, as far as its record says."""
        seen, about = self._read(), self._about
        jobs: tuple[str, ...] = (continuations.newest(seen, about.job_id, about.after_attempt),)
        if about.is_pool:
            jobs = continuations.of_pool(seen, about.job_id, about.after_attempt)
        self._control.follow(*jobs)
        return jobs

    def _read(self, *, afresh: bool = False) -> RunSnapshot:
        now_s = self._clock.monotonic_s()
        bell = snapshot.bell(self.run_dir)
        is_old = bell != self._bell or now_s - self._read_at_s >= _READ_EVERY_S
        if self._snapshot is None or afresh or is_old:
            self._bell, self._read_at_s = bell, now_s
            self._snapshot = snapshot.read(self.run_dir)
        return self._snapshot

    def _succeeded(self, timeout: float | None) -> Outcome:
        outcome = self._outcome(self._wait(timeout))
        failure = outcome.failure()
        if failure is not None:
            raise failure
        return outcome

    def _outcome(self, judgement: Judgement) -> Outcome:
        return Outcome(self._files, self._read(afresh=True), judgement, str(self._files.folder))

    def _value(self, outcome: Outcome, rank: int) -> Any:
        is_shared = self._about.cluster != LOCAL
        give_up_s = self._clock.monotonic_s() + (_VISIBLE_AFTER_S if is_shared else 0.0)
        pause_s = _FIRST_PAUSE_S
        while not outcome.has_value(rank) and self._clock.monotonic_s() < give_up_s:
            self._clock.sleep_s(pause_s)
            pause_s = min(pause_s * _GROWTH, _LAST_PAUSE_S)
        return outcome.value(rank)
