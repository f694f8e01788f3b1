"""What a person orders of a run, whoever started it: cancel, preempt, drain.

The run's directory says which job runs it: one that `submit` made, one of a hand-written `sbatch`, the
supervisor of the local cluster, or nothing but agents that were started by hand. Those are told
through the record.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from hpc_elastic.clock import SYSTEM_CLOCK, Clock
from hpc_elastic.errors import RunOver, SubmissionError, UsageError
from hpc_elastic.rendezvous.choice import Wanted
from hpc_elastic.rendezvous.record import GUESTS, NodeState, Notice, Reason
from hpc_elastic.slurm import commands
from hpc_elastic.slurm.commands import Controller, Runner
from hpc_elastic.status import continuations, snapshot
from hpc_elastic.status.snapshot import AttemptSnapshot, RunSnapshot
from hpc_elastic.submission import guests
from hpc_elastic.submission.cancelling import keep_away
from hpc_elastic.submission.files import JobFile, SubmissionFiles
from hpc_elastic.submission.local_control import LocalControl
from hpc_elastic.submission.notifier import Notifier, by_environment
from hpc_elastic.submission.slurm_control import SlurmControl
from hpc_elastic.submission.states import Sight

DRAIN_S: Final = 600.0
_CANCEL_S: Final = 5.0


@dataclass(frozen=True)
class Orders:
    """Carries out orders for the run in `run_dir`. Each returns what was done, in one sentence.

    `wanted` says how to reach an etcd that agents meet in which were started by hand.

    Raises `RunOver` where the run has come to its end, `UsageError` where nothing of it runs,
    `SubmissionError` where Slurm or the record refuses.
    """

    run_dir: Path
    clock: Clock = SYSTEM_CLOCK
    runner: Runner = field(default=commands.run)
    wanted: Callable[[], Wanted] = by_environment

    def cancel(self) -> str:
        """End the run now, with the jobs that joined it; a job that waits in the queue is taken out of it."""
        run = self._open()
        control = self.control(run)
        if control is None:
            told = self._cancel_by_hand(run, (self._require_running(run), *self._sharers(run)))
        else:
            control = self._newest(run, control)
            control.cancel()
            self._cancel_by_hand(run, self._sharers(run))
            told = f"{_who(control)} is being ended"
        return f"{told}{guests.cancel(run, self.runner)}"

    def preempt(self) -> str:
        """Rehearse a preemption."""
        run = self._open()
        control = self.control(run)
        attempt = self._require_running(run)
        if control is not None:
            control.preempt()
            return f"{_who(control)} has its notice: the workers save and leave, and it is started again"
        notifier = self._notifier(run)
        stands = notifier.note(attempt, Reason.USER, DRAIN_S, "preempt")
        notifier.pass_on(attempt)
        if stands.reason is not Reason.USER:
            return _told_before(stands)
        return (
            "its agents save and leave with status 80; nobody starts them again but you: "
            f"the same command with --run-dir {self.run_dir}"
        )

    def drain(self, seconds_left: float = DRAIN_S) -> str:
        """Let the workers save at an agreed step and stop, within `seconds_left`; nothing comes back."""
        run = self._open()
        control = self.control(run)
        if control is not None and control.look().sight is Sight.WAITING:
            control = self._newest(run, control)
            control.cancel()
            what = "nothing of it ran" if run.own_attempt is None else "what it saved before stays"
            return f"{_who(control)} was waiting and is cancelled: {what}"
        attempt = self._require_running(run)
        others = self._sharers(run)
        notifier = self._notifier(run)
        for other in others:
            notifier.note(other, Reason.CANCELLED, seconds_left, "drain")
        self._cancel_pending(run, attempt)
        stands = notifier.note(attempt, Reason.CANCELLED, seconds_left, "drain")
        self._ring(notifier, control, (attempt, *others))
        if stands.reason is not Reason.CANCELLED:
            return f"{_told_before(stands)}; if it comes back, drain it again"
        return f"the workers save at the next agreed step and stop, in {seconds_left:g} s at the latest"

    def _newest(self, run: RunSnapshot, control: LocalControl | SlurmControl) -> LocalControl | SlurmControl:
        """The control of what the run is by now, and from now on nothing comes after it."""
        if isinstance(control, LocalControl):
            return control
        keep_away(run, 0, self.clock)
        return self.control(snapshot.read(self.run_dir)) or control

    def _cancel_by_hand(self, run: RunSnapshot, attempts: Sequence[AttemptSnapshot]) -> str:
        """Tell the agents that nobody but a person has started, whatever they were told before."""
        notifier = self._notifier(run)
        told = f"its agents were started by hand: they are told to end within {_CANCEL_S:g} s"
        for one in attempts:
            if not one.is_by_hand:
                continue
            stands = notifier.note(one, Reason.CANCELLED, _CANCEL_S, "cancel")
            if stands.seconds_left > _CANCEL_S:
                stands = notifier.better(one, Reason.CANCELLED, _CANCEL_S, "cancel")
            notifier.pass_on(one)
            if stands.seconds_left > _CANCEL_S:
                told = f"{_told_before(stands)}; to end it now, end its agents"
        return told

    def _cancel_pending(self, run: RunSnapshot, attempt: AttemptSnapshot) -> None:
        """Take out of the queue what would join, or would be one more element of the pool."""
        controller = Controller(self.runner, self.clock)
        if "/" in attempt.start.share and not attempt.is_by_hand:
            controller.cancel_pending(self._address(run, SubmissionFiles(self.run_dir)))
        for job in guests.jobs_of(run):
            controller.cancel_pending(job)

    def _ring(
        self,
        notifier: Notifier,
        control: LocalControl | SlurmControl | None,
        attempts: Sequence[AttemptSnapshot],
    ) -> None:
        """Make agents look that meet in etcd: whoever hears the signal finds what stands on record."""
        elsewhere = [one for one in attempts if notifier.meets_elsewhere(one)]
        if elsewhere and control is not None:
            control.preempt()
        for one in elsewhere:
            if one.is_by_hand and (control is None or one.start.share == GUESTS):
                notifier.pass_on(one)
            elif one.start.share == GUESTS:
                SlurmControl(one.start.job_id, self.clock, self.runner).preempt()

    def _open(self) -> RunSnapshot:
        run = snapshot.read(self.run_dir)
        if run.closed is not None:
            how = "is done" if run.closed.succeeded else f"has failed ({run.closed.message})"
            raise RunOver(f"run {run.run_id or self.run_dir.name} {how}: there is nothing to stop")
        return run

    def control(self, run: RunSnapshot) -> LocalControl | SlurmControl | None:
        """Whoever starts the agents of the run; None where people do."""
        files = SubmissionFiles(self.run_dir)
        if files.supervisor.exists():
            return LocalControl(files)
        address = self._address(run, files)
        own = run.own_attempt
        is_array = own is not None and "/" in own.start.share
        if not address:
            return None
        control = SlurmControl(address, self.clock, self.runner, is_array=is_array, run_id=run.run_id)
        if is_array:
            control.follow(*continuations.of_pool(run, address))
        return control

    def _address(self, run: RunSnapshot, files: SubmissionFiles) -> str:
        """What Slurm calls the job; empty where there is none."""
        attempt = run.own_attempt
        if attempt is not None and attempt.is_by_hand:
            return ""
        if files.job.exists():
            about = JobFile.read(files.job)
            if about.is_pool:
                return about.job_id
            return continuations.newest(run, about.job_id, about.after_attempt)
        if attempt is None:
            raise UsageError(f"nothing has started in {self.run_dir} and no job is known; see `squeue --me`")
        if attempt.start.share:  # all elements of a pool
            return attempt.start.share.rpartition("/")[2]
        if (further := continuations.last_of(run, attempt.start.job_id)) != attempt.start.job_id:
            return further
        if not attempt.start.array_task:
            return attempt.start.job_id
        return self._address_in_array(attempt.start.job_id)

    def _address_in_array(self, job_id: str) -> str:
        """`<array>_<task>`: the plain id of an array's last task is that of the whole array."""
        answer = self.runner(
            ("squeue", "-h", "-r", "-t", "all", "-o", "%A %F %K", "-j", job_id), commands.TIMEOUT_S
        )
        for line in answer.output.splitlines():
            own, array, task = (*line.split(), "", "", "")[:3]
            if own == job_id and task.isdecimal():
                return f"{array}_{task}"
        raise SubmissionError(
            f"Slurm does not say which task of its array job {job_id} is ({answer}); see `squeue --me`"
        )

    def _require_running(self, run: RunSnapshot) -> AttemptSnapshot:
        attempt = run.own_attempt
        if attempt is None:
            raise UsageError(f"nothing has started in {self.run_dir}; there is nothing to stop")
        here = run.present
        if here and all(one.state is NodeState.LEFT for one in here):
            name = run.run_id or self.run_dir
            left = f"no node of attempt {attempt.number} is there any more"
            if attempt.is_by_hand and not SubmissionFiles(self.run_dir).supervisor.exists():
                raise UsageError(f"{left}: there is nothing to stop")
            raise UsageError(f"{left}; to keep a waiting job from coming back, `hpc-elastic cancel {name}`")
        return attempt

    def _notifier(self, run: RunSnapshot) -> Notifier:
        return Notifier(run, self.clock, self.wanted)

    def _sharers(self, run: RunSnapshot) -> tuple[AttemptSnapshot, ...]:
        """The attempts of other jobs that share the run, as far as somebody of them is there."""
        living = {one.attempt for one in run.present if one.state is not NodeState.LEFT}
        return tuple(
            one
            for one in run.attempts
            if one.start.share and one.number in living and one is not run.own_attempt
        )


def _told_before(stands: Notice) -> str:
    why = stands.reason.value
    return f"it was told to stop before ({why}), within {stands.seconds_left:g} s, and is saving"


def _who(control: LocalControl | SlurmControl) -> str:
    return f"job {control.job_id}" if isinstance(control, SlurmControl) else "the job on the local cluster"
