"""What attempts left behind, for tests of the decision and of the act."""

from __future__ import annotations

from hpc_elastic.rendezvous.record import Closed, Notice, Outcome, Reason, Scope
from hpc_elastic.slurm import job_record
from hpc_elastic.slurm.job_record import JobRecord
from hpc_elastic.slurm.requeue import Aftermath
from tests.unit.slurm.records import job_text

DONE = Closed(3, 1, True, 2, 0, "", "now", "w")
FAILED = Closed(3, 1, False, 2, 7, "rank 1 on n2 ended with 7", "now", "w")


def notice(reason: Reason = Reason.PREEMPTED) -> Notice:
    return Notice(1, reason, Scope.RUN, 17.0, "1-n1-x", "SIGTERM", "now", "w")


PREEMPTED = Aftermath(
    job_id="71",
    address="71",
    restart_count=0,
    step_status=80,
    attempt=1,
    notice=notice(),
    outcomes=(Outcome.SAVED, Outcome.SAVED),
)


def job(**changed: str) -> JobRecord:
    found = job_record.parse(job_text(**changed), "71")
    assert found is not None
    return found
