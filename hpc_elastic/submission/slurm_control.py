"""A submitted job as Slurm sees it: looked at gently, cancelled, sent a notice."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final

from hpc_elastic.clock import Clock
from hpc_elastic.errors import SubmissionError
from hpc_elastic.slurm import commands, job_record
from hpc_elastic.slurm.commands import Answer, Controller, Runner
from hpc_elastic.slurm.continuation import successor
from hpc_elastic.slurm.holds import explain
from hpc_elastic.submission import elements
from hpc_elastic.submission.elements import sight_of
from hpc_elastic.submission.states import Seen, Sight

# At most one question per job and this time, growing: a controller serves the whole site.
_FIRST_PAUSE_S: Final = 1.0
_LAST_PAUSE_S: Final = 30.0
_GROWTH: Final = 1.5
# A requeued job is PENDING at once, but its old end may be shown by a controller that is behind.
_END_STANDS_S: Final = 10.0
# Slurm forgets a job MinJobAge after its end (300 s by default), never before. A controller that was
# restarted without its state may show it again.
_GONE_STANDS_S: Final = 60.0

_UNKNOWN_JOB: Final = "invalid job id"


class SlurmControl:
    """One Slurm job. `look` asks the controller only when enough time has passed since the last time.

    `is_array`: it is a pool, and goes on as long as one of its elements may, or of the jobs in their places.
    A job that Slurm does not start again may have handed its run, `run_id`, to another one although nobody
    has written that down: then that is looked at from there on.
    """

    def __init__(
        self,
        job_id: str,
        clock: Clock,
        runner: Runner = commands.run,
        *,
        is_array: bool = False,
        run_id: str = "",
    ) -> None:
        self._jobs: tuple[str, ...] = (job_id,)
        self._known = {job_id}  # of these only the last one may run
        self._run_id = run_id
        self._is_array = is_array
        self._clock = clock
        self._runner = runner
        # Many waiting processes of one user must not ask in step.
        self._spread = 1.0 + (os.getpid() % 16) / 64
        self._turn_to(job_id)

    @property
    def job_id(self) -> str:
        """The job that it is about by now; the array of a pool."""
        return self._jobs[0]

    def look(self) -> Seen:
        """What Slurm says, at most `_LAST_PAUSE_S` old."""
        now_s = self._clock.monotonic_s()
        if now_s >= self._next_s:
            self._note(self._ask_on(), now_s)
        return self._settled(now_s)

    def follow(self, *jobs: str) -> None:
        """Look at these jobs from now on, which go on in the place of the one before."""
        if jobs != self._jobs and (len(jobs) > 1 or jobs[0] not in self._known):
            self._turn_to(*jobs)

    def cancel(self) -> None:
        """End the job now, or the one that went on after it; raises SubmissionError where Slurm refuses."""
        self._find_it()
        self._do("scancel", *self._jobs)

    def preempt(self) -> None:
        """Give the agents notice, as before a time limit; they save, leave, and the job is requeued."""
        self._find_it()
        self._do("scancel", "--signal=USR2", *self._jobs)

    def _do(self, *command: str) -> None:
        answer = self._call(command)
        self._next_s = self._clock.monotonic_s()
        self._pause_s = _FIRST_PAUSE_S
        if not answer.is_ok:
            raise SubmissionError(
                f"{answer}; see `squeue --me`; where Slurm is out of reach, `hpc-elastic drain` needs the "
                "run directory alone"
            )

    def _call(self, command: Sequence[str]) -> Answer:
        return self._runner(command, commands.TIMEOUT_S)

    def _ask_on(self) -> Seen:
        """Of the job, and where that has ended of the one that goes on with the run, if there is one."""
        seen = self._ask()
        while seen.sight in (Sight.ENDED, Sight.GONE) and self._run_id and not self._is_array:
            answer = Controller(self._runner, self._clock, pauses_s=()).list_comments(os.getuid())
            if answer.may_work_later:
                return Seen(Sight.UNSEEN, str(answer), "squeue")
            further = successor(answer.output, self._run_id, self.job_id)
            if further is None:
                break
            self._turn_to(further)
            seen = self._ask()
        return seen

    def _find_it(self) -> None:
        """Before an order: it may be another job by now."""
        if self._run_id:
            self.look()

    def _turn_to(self, *jobs: str) -> None:
        self._jobs = jobs
        self._known.update(jobs)
        self._seen = Seen(Sight.UNSEEN, "not asked yet", "scontrol")
        self._since_s = self._next_s = self._clock.monotonic_s()
        self._pause_s = _FIRST_PAUSE_S

    def _ask(self) -> Seen:
        first, *others = self._jobs
        looks = [self._ask_for(first, is_array=self._is_array)]
        for job_id in others:
            if looks[-1].sight is Sight.ACTIVE:
                break
            looks.append(self._ask_for(job_id))
        return elements.together(looks)

    def _ask_for(self, job_id: str, *, is_array: bool = False) -> Seen:
        answer = self._call(("scontrol", "show", "job", "-o", job_id))
        if _UNKNOWN_JOB in answer.complaint.lower():
            return self._from_accounting(job_id, is_array=is_array)
        if is_array and answer.is_ok:
            return elements.seen(job_record.parse_array(answer.output, job_id), f"array {job_id}")
        job = job_record.parse(answer.output, job_id) if answer.is_ok else None
        if job is None:
            return Seen(Sight.UNSEEN, str(answer), "scontrol")
        sight = sight_of(job.state)
        detail = (explain(job.reason, job.address) or _plain(job.reason)) if sight is Sight.WAITING else ""
        return Seen(sight, job.state, f"job {job_id}", detail=detail)

    def _from_accounting(self, job_id: str, *, is_array: bool) -> Seen:
        """The newest record that the accounting has; a requeued job has several."""
        answer = self._call(("sacct", "-D", "-X", "-n", "-P", "-o", "State,JobID", "-j", job_id))
        lines = answer.output.split("\n") if answer.is_ok else []
        newest = {line.partition("|")[2]: line.split("|")[0].split()[0] for line in lines if line.strip()}
        if not newest:
            return Seen(Sight.GONE, "no longer known to Slurm", f"job {job_id}")
        source = f"accounting of job {job_id}"
        if is_array:
            return elements.of_states(tuple(newest.values()), source)
        word = tuple(newest.values())[-1]
        return Seen(sight_of(word), word, source)

    def _note(self, seen: Seen, now_s: float) -> None:
        if (seen.sight, seen.word) != (self._seen.sight, self._seen.word):
            self._since_s, self._pause_s = now_s, _FIRST_PAUSE_S
        else:
            self._pause_s = min(self._pause_s * _GROWTH, _LAST_PAUSE_S)
        self._seen = seen
        self._next_s = now_s + self._pause_s * self._spread

    def _settled(self, now_s: float) -> Seen:
        stands_s = {Sight.ENDED: _END_STANDS_S, Sight.GONE: _GONE_STANDS_S}.get(self._seen.sight)
        if stands_s is None or now_s - self._since_s < stands_s:
            return self._seen
        return Seen(self._seen.sight, self._seen.word, self._seen.source, is_settled=True)


def _plain(reason: str) -> str:
    """Slurm's own word for why a job waits."""
    return "" if reason == "None" else reason
