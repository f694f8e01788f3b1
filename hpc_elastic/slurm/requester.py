"""Carries out the decision whether a job comes back: claim, act, and look whether it worked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from hpc_elastic.agent.notices import TERMINATE_SIGNALS, Kind
from hpc_elastic.clock import SYSTEM_CLOCK, Clock
from hpc_elastic.exit_codes import ExitCode
from hpc_elastic.rendezvous.record import Reason
from hpc_elastic.slurm import job_record
from hpc_elastic.slurm.commands import Answer, Controller
from hpc_elastic.slurm.continuation import Continuation
from hpc_elastic.slurm.job_record import JobRecord
from hpc_elastic.slurm.preemption import certain_reason, reason_of
from hpc_elastic.slurm.requeue import (
    Aftermath,
    Continue,
    Decision,
    Leave,
    Requeue,
    SwitchRequeueOn,
    decide,
)
from hpc_elastic.values import dataclass, replace

# Looks at the job after the act. All within the sandbox's KillWait of 5 s: the requeue itself starts
# the clock after which this process is killed.
_LOOKS_S: Final = (0.0, 0.2, 0.5, 1.0, 1.5)
_HASTY_S: Final = 3.0
# While the controller is out of reach the act is tried for two minutes, four where it hangs: a restart takes
# one or so. Who gave up earlier would lose a job that Slurm itself requeues at the end of the grace time.
PATIENT: Final = Controller(pauses_s=(0.5, 1.0, 2.0, 4.0, 8.0) + 7 * (15.0,))
_NO_FAILURE: Final = frozenset({ExitCode.DONE, ExitCode.SAVED, ExitCode.UNSAVED})
# What a failed job ends with where its own status will not do.
_INSTEAD: Final = (int(ExitCode.FAILED), int(ExitCode.NO_PROGRESS), *range(86, 126))
# How long another requester's claim may stand without effect before the next one takes over.
_CLAIM_S: Final = 10.0
_CLAIM_LOOK_S: Final = 1.0
MAX_CLAIMS: Final = 8
_TERMINATE: Final = frozenset(number.name for number in TERMINATE_SIGNALS)
# The words sbatch/elastic.sh looks for.
ASKED_SHELL: Final = "no scontrol here, so the batch shell asks Slurm"
SUBMITS: Final = "submits what is in"
_UNWANTED: Final = "the run was cancelled meanwhile"


Act = Requeue | SwitchRequeueOn | Continue


@dataclass(frozen=True)
class Report:
    """How it went: the batch script's exit status, and the line for the job's output.

    `reason` is the cause of the stop where the job's record showed it, `continued_by` the job that goes on in
    its place. `is_open`: the batch shell has still to do its part.
    """

    code: int
    message: str
    is_requeued: bool = False
    continued_by: str = ""
    is_open: bool = False
    reason: Reason | None = None


@dataclass(frozen=True)
class Requester:
    """Carries a decision out.

    `claim` takes the number of a claim and says whether this process holds it: of all that ask at
    once, one acts. `resume` is the advice for a person where the job does not come back.
    """

    claim: Callable[[int], bool]
    resume: str
    controller: Controller = PATIENT
    clock: Clock = SYSTEM_CLOCK
    continuation: Continuation | None = None
    why_no_continuation: str = "there is no other job that could go on"
    is_unwanted: Callable[[], bool] = lambda: False

    def look(self, job_id: str) -> JobRecord | None:
        """The job's record now, or None where Slurm does not answer soon: the grace time runs."""
        return job_record.parse(self._hasty.show_job(job_id).output, job_id)

    @property
    def _hasty(self) -> Controller:
        return replace(self.controller, timeout_s=_HASTY_S, pauses_s=self.controller.pauses_s[:1])

    def settle(self, after: Aftermath) -> Report:
        """Decide, act, verify. Whatever Slurm's commands do, there is a report."""
        # A finish or a failure needs no question to the controller.
        job = None if after.closed is not None else self.look(after.job_id)
        decision = decide(after, job)
        report = self._carry_out(decision, after, job)
        if isinstance(decision, Leave) and report.code not in _NO_FAILURE:
            report = self._stay_failed(report)
        return replace(report, reason=_reason(after, job))

    def _stay_failed(self, report: Report) -> Report:
        """Not with a status after which the site starts every job again: that would never end."""
        requeued = job_record.requeue_exits(self._hasty.show_config().output)
        if report.code not in requeued:
            return report
        code = next(code for code in _INSTEAD if code not in requeued)
        why = f"status {report.code} is in the site's RequeueExit, which would start the job again"
        return replace(report, code=code, message=f"{report.message}; {why}")

    def hand_over(
        self, after: Aftermath, job: JobRecord | None, fields: Mapping[str, str] | None = None
    ) -> Report:
        """Decide only, by a record that the batch shell has read: there is no `scontrol` here.

        A message with `ASKED_SHELL` makes the shell ask, one with `SUBMITS` and a path submit; the
        options of the job are taken from the `fields` of its record.
        """
        decision = decide(after, job)
        if isinstance(decision, Leave):
            return replace(self._carry_out(decision, after, job), reason=_reason(after, job))
        reason = _reason(after, job)
        words = None
        if fields is not None and self.continuation is not None:
            words = self.continuation.write_words(fields, after.job_id)
        if isinstance(decision, Continue) and words is None:
            return replace(self._lost(decision, after.address, self.why_no_continuation), reason=reason)
        if not self.claim(0):
            said = f"{decision.why}; another requester asks Slurm"
        elif isinstance(decision, Continue):
            said = f"{decision.why}; no sbatch here, so the batch shell {SUBMITS} {words}"
        else:
            said = f"{decision.why}; {ASKED_SHELL}" + ("" if words is None else f", or {SUBMITS} {words}")
        return Report(decision.code, said, is_open=True, reason=reason)

    def _carry_out(self, decision: Decision, after: Aftermath, job: JobRecord | None) -> Report:
        if isinstance(decision, Leave):
            is_back = job is not None and job.has_come_back(after.restart_count)
            return Report(decision.code, decision.why, is_requeued=is_back)
        if self.is_unwanted():
            return Report(decision.code, f"{decision.why}; {_UNWANTED}")
        address = job.address if job is not None else after.address
        for number in range(MAX_CLAIMS):
            if self.claim(number):
                return self._act(decision, after, address)
            if (done := self._done_by_another(after, address)) is not None:
                return replace(done, code=decision.code, message=f"{decision.why}; {done.message}")
        return self._lost(decision, address, f"{MAX_CLAIMS} requesters before this one had no effect")

    def _act(self, decision: Act, after: Aftermath, address: str) -> Report:
        why = decision.why
        if isinstance(decision, Continue):
            return self._continue(decision, after, address)
        if isinstance(decision, SwitchRequeueOn):
            switched = self.controller.switch_requeue_on(address)
            if not switched.is_ok:
                fact = f"it could not be switched on: {switched}"
                return self._after_a_refusal(decision, after, address, switched, fact)
            why += ", switched on"
        asked = self.controller.requeue(address)
        seen = self._verify(after, asked)
        if seen is None:
            return self._after_a_refusal(decision, after, address, asked, str(asked))
        fact = f"job {address} is requeued ({seen}){self._without_bad_nodes(after, address)}"
        return Report(decision.code, f"{why}; {fact}", is_requeued=True)

    def _without_bad_nodes(self, after: Aftermath, address: str) -> str:
        """Only a job that waits can be kept from nodes, so after the requeue. In words, what came of it."""
        if not after.bad_nodes:
            return ""
        found = job_record.fields(self.controller.show_job(after.job_id).output, after.job_id) or {}
        before = found.get("ExcNodeList", "(null)")
        names = ",".join((*(() if before in ("", "(null)") else (before,)), *after.bad_nodes))
        asked = self.controller.exclude(address, names)
        return f", without {names}" if asked.is_ok else f"; it may get bad nodes again: {asked}"

    def _verify(self, after: Aftermath, asked: Answer) -> str | None:
        """What shows that the job comes back, or None.

        Status 0 alone proves nothing, and a refusal may mean that somebody was faster.
        """
        job: JobRecord | None = None
        for pause_s in () if asked.is_missing else _LOOKS_S:
            self.clock.sleep_s(pause_s)
            job = self.look(after.job_id)
            if job is not None and job.has_come_back(after.restart_count):
                return f"state {job.state}, restarts {job.restarts}"
            if job is None and asked.may_work_later:
                break
        if job is None and asked.is_ok:
            return "accepted, not verified: the controller does not answer"
        return None

    def _after_a_refusal(
        self, decision: Act, after: Aftermath, address: str, said: Answer, fact: str
    ) -> Report:
        """Slurm has refused, or done nothing. Look once more: the job may have been cancelled meanwhile."""
        job = self.look(after.job_id)
        again = None if job is None else decide(after, job)
        if isinstance(again, Continue) or (
            said.is_refused and again is not None and not isinstance(again, Leave)
        ):
            return self._continue(replace(decision, why=f"{decision.why}; {fact}"), after, address)
        return self._lost(decision, address, fact)

    def _continue(self, decision: Act, after: Aftermath, address: str) -> Report:
        if self.continuation is None:
            return self._lost(decision, address, self.why_no_continuation)
        number, fact = self.continuation.submit(self.controller, after.job_id, after.bad_nodes)
        if number is None:
            return self._lost(decision, address, f"no continuation job: {fact}")
        if self.is_unwanted():  # since it was submitted: who cancelled did not know of it
            self.controller.cancel(number)
            return Report(decision.code, f"{decision.why}; {_UNWANTED}, and continuation job {number} too")
        said = f"{decision.why}; continuation job {number} goes on with the run ({fact})"
        return Report(decision.code, said, continued_by=number)

    def _done_by_another(self, after: Aftermath, address: str) -> Report | None:
        """What a requester with an earlier claim has brought about; or None."""
        for _ in _looks(_CLAIM_S, _CLAIM_LOOK_S):
            job = self.look(after.job_id)
            if job is not None and job.has_come_back(after.restart_count):
                return Report(0, f"job {address} was requeued by another requester", is_requeued=True)
            number = None if self.continuation is None else self.continuation.find(self._hasty)
            if number is not None:
                said = f"another requester has submitted continuation job {number}"
                return Report(0, said, continued_by=number)
            self.clock.sleep_s(_CLAIM_LOOK_S)
        return None

    def _lost(self, decision: Act, address: str, fact: str) -> Report:
        return Report(
            decision.code, f"{decision.why}; job {address} does not come back: {fact}; {self.resume}"
        )


def _reason(after: Aftermath, job: JobRecord | None) -> Reason | None:
    """The cause by the job's record, where it says more than that a signal came."""
    if job is None:
        return None
    if after.notice is None or after.notice.signal in _TERMINATE:
        return certain_reason(job, after.restart_count)
    return reason_of(Kind.NOTICE, job, after.restart_count)


def _looks(window_s: float, every_s: float) -> Iterator[int]:
    return iter(range(max(1, int(window_s / every_s))))
