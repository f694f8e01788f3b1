"""Whether a job comes back: the decision, the act, and the look whether it worked."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hpc_elastic.exit_codes import ExitCode
from hpc_elastic.rendezvous.record import Notice, Outcome, Reason
from hpc_elastic.slurm.job_record import JobRecord
from hpc_elastic.slurm.requeue import MOST_WAITS, Aftermath, Continue, Leave, Requeue, SwitchRequeueOn, decide
from tests.unit.slurm.aftermaths import DONE, FAILED, PREEMPTED, job, notice


def test_a_preempted_job_that_still_runs_is_requeued() -> None:
    assert decide(PREEMPTED, job()) == Requeue(ExitCode.SAVED, "preempted")


def test_a_job_whose_processes_are_being_signalled_runs() -> None:
    assert isinstance(decide(PREEMPTED, job(state="SIGNALING")), Requeue)


@pytest.mark.parametrize("reason", [Reason.TIME_LIMIT, Reason.USER, Reason.UNKNOWN, Reason.NODE_FAILURE])
def test_every_other_notice_but_a_cancel_brings_a_running_job_back_too(reason: Reason) -> None:
    assert isinstance(decide(replace(PREEMPTED, notice=notice(reason)), job()), Requeue)


def test_a_drain_that_nobody_announced_counts_like_a_notice() -> None:
    assert isinstance(decide(replace(PREEMPTED, notice=None, is_drained=True), job()), Requeue)


def test_work_is_called_unsaved_where_one_node_did_not_save_or_never_said() -> None:
    for outcome in (Outcome.UNSAVED, Outcome.FAILED, None):
        after = replace(PREEMPTED, outcomes=(Outcome.SAVED, outcome))
        assert decide(after, job()).code == ExitCode.UNSAVED
    assert decide(replace(PREEMPTED, outcomes=()), job()).code == ExitCode.SAVED, "nothing had started"
    assert decide(replace(PREEMPTED, outcomes=(Outcome.DONE, Outcome.SAVED)), job()).code == ExitCode.SAVED


@pytest.mark.parametrize("attempt", [None, 1])
def test_a_preemption_that_no_agent_lived_to_hear_is_seen_in_the_jobs_record(attempt: int | None) -> None:
    after = replace(PREEMPTED, attempt=attempt, notice=None, outcomes=(), step_status=143)

    assert isinstance(decide(after, job(preempt="2026-03-01T12:10:00")), Requeue)
    assert decide(after, job()).code == 143


def test_a_world_that_lost_a_node_and_is_too_small_comes_back() -> None:
    after = replace(PREEMPTED, notice=None, step_status=85, node_count=5, outcomes=(None, Outcome.FAILED))

    decision = decide(after, job())

    assert decision == Requeue(ExitCode.UNSAVED, "of 5 nodes 4 are left, too few to go on")
    assert decide(replace(after, node_count=4, outcomes=(Outcome.FAILED,)), job()).code == 85
    for status in (64, 84):
        assert isinstance(decide(replace(after, step_status=status), job()), Leave)


def test_agents_that_ended_without_a_word_are_a_loss_and_the_job_comes_back() -> None:
    after = replace(PREEMPTED, notice=None, step_status=137, outcomes=(None, None))

    decision = decide(after, job())

    assert decision == Requeue(ExitCode.UNSAVED, "2 of 2 agents ended without a word (srun status 137)")
    cancelled = decide(after, job(state="CANCELLED"))
    assert isinstance(cancelled, Leave)
    assert "cancelled" in cancelled.why
    assert isinstance(decide(after, None), Leave), "it may have been cancelled"


@pytest.mark.parametrize("told", [None, notice(Reason.NODE_FAILURE)])
def test_losses_in_a_row_that_saved_nothing_come_to_an_end(told: Notice | None) -> None:
    after = replace(PREEMPTED, notice=told, step_status=137, outcomes=(None, Outcome.SAVED), max_losses=3)

    assert isinstance(decide(replace(after, losses=3), job()), Requeue)
    last = decide(replace(after, losses=4), job())

    assert isinstance(last, Leave)
    assert last.code == ExitCode.NO_PROGRESS
    assert "4 starts in a row" in last.why


def test_starts_that_come_to_their_time_limit_without_a_step_further_come_to_an_end() -> None:
    after = replace(PREEMPTED, notice=notice(Reason.TIME_LIMIT), outcomes=(Outcome.UNSAVED,), max_losses=3)

    assert isinstance(decide(replace(after, stalls=3), job()), Requeue)
    for record in (job(), job(state="COMPLETING", reason="TimeLimit"), None):
        last = decide(replace(after, stalls=4), record)
        assert isinstance(last, Leave)
        assert last.code == ExitCode.NO_PROGRESS
        assert "4 starts in a row began at the same step" in last.why


def test_where_the_agents_could_not_ask_the_jobs_record_says_that_it_was_the_time_limit() -> None:
    after = replace(PREEMPTED, notice=notice(Reason.UNKNOWN), outcomes=(Outcome.UNSAVED,), stalls=4)
    near = {"limit": "00:11:00", "end": "2026-03-01T12:11:00"}

    assert isinstance(decide(after, job(**near)), Leave)
    preempted = job(preempt="2026-03-01T12:10:00", **near)
    assert isinstance(decide(after, preempted), Requeue), "it is preempted"
    assert isinstance(decide(after, None), Requeue)


def test_requeue_is_switched_on_first_where_the_job_has_it_off() -> None:
    assert isinstance(decide(PREEMPTED, job(requeue="0")), SwitchRequeueOn)


def test_without_an_answer_from_slurm_the_requeue_is_asked_for_all_the_same() -> None:
    assert isinstance(decide(PREEMPTED, None), Requeue)


# (what changes in the aftermath, what changes in the job's record, exit code, words of the reason)
# Preempted with 20 s of grace: killed when they were over, or cancelled after ten of them.
TAKEN = {"state": "COMPLETING", "preempt": "2026-03-01T12:10:00", "end": "2026-03-01T12:10:20"}
ENDED_BY_A_CANCEL = {**TAKEN, "end": "2026-03-01T12:10:10"}
LEAVES: list[tuple[dict[str, object], dict[str, str], int, str]] = [
    ({"closed": DONE}, {}, 0, "done"),
    ({"closed": DONE}, {"state": "COMPLETING"}, 0, "done"),
    ({"closed": FAILED}, {}, 7, "rank 1 on n2 ended with 7"),
    ({"closed": replace(FAILED, node="n2", rank=1)}, {}, 7, "rank 1 on n2, whose agent says how"),
    ({"attempt": None, "step_status": 64, "notice": None}, {}, 64, "no agent"),
    ({"attempt": None, "step_status": 0, "notice": None}, {}, 1, "no agent"),
    ({"attempt": None, "step_status": 84, "notice": None}, {}, 84, "removed or out of reach"),
    ({"notice": None, "step_status": 85}, {}, 85, "status 85"),
    ({"notice": notice(Reason.CANCELLED)}, {}, 80, "cancelled"),
    ({"may_requeue": False}, {}, 80, "no requeue"),
    ({}, {"state": "COMPLETING"}, 80, "COMPLETING"),
    ({}, {"state": "CANCELLED"}, 80, "CANCELLED"),
    ({}, {"state": "COMPLETING", "preempt": "2026-03-01T12:10:00"}, 80, "or the job was cancelled"),
    ({"grace_s": 20.0}, ENDED_BY_A_CANCEL, 80, "or the job was cancelled"),
    ({"grace_s": 20.0}, {**ENDED_BY_A_CANCEL, "state": "CANCELLED"}, 80, "or the job was cancelled"),
    ({"grace_s": 0.0}, ENDED_BY_A_CANCEL, 80, "or the job was cancelled"),
    ({"grace_s": 5.0}, {**TAKEN, "end": "2026-03-01T12:10:59"}, 80, "or the job was cancelled"),
    ({"may_requeue": False, "grace_s": 20.0}, TAKEN, 80, "no requeue"),
    ({"grace_s": 20.0}, {**TAKEN, "batch": "0"}, 80, "only a batch job"),
    ({}, {"state": "PENDING", "restarts": "1"}, 80, "already"),
    ({}, {"state": "COMPLETING", "restarts": "1"}, 80, "already"),
    ({}, {"batch": "0"}, 80, "sbatch"),
]


@pytest.mark.parametrize(("changed", "record", "code", "words"), LEAVES)
def test_otherwise_the_job_is_left_alone_and_the_reason_said(
    changed: dict[str, object], record: dict[str, str], code: int, words: str
) -> None:
    decision = decide(replace(PREEMPTED, **changed), job(**record))  # type: ignore[arg-type]

    assert isinstance(decision, Leave)
    assert decision.code == code
    assert words in decision.why


@pytest.mark.parametrize(
    ("record", "words"),
    [
        (TAKEN, "preempted; the grace time is over"),
        ({**TAKEN, "state": "PREEMPTED", "end": "2026-03-01T12:10:00"}, "preempted; the grace time is over"),
        ({"state": "COMPLETING", "reason": "TimeLimit"}, "--signal=USR2@SECONDS"),
    ],
)
def test_a_job_that_slurm_has_ended_goes_on_as_another_one(record: dict[str, str], words: str) -> None:
    decision = decide(replace(PREEMPTED, grace_s=20.0), job(**record))

    assert isinstance(decision, Continue)
    assert words in decision.why


def test_fifty_preemptions_spend_nothing_and_the_next_one_is_requeued_like_the_first() -> None:
    for restarts in range(50):
        life = replace(PREEMPTED, restart_count=restarts, attempt=restarts + 1)
        record = job(restarts=str(restarts), preempt="2026-03-01T12:10:00")
        assert decide(life, record) == Requeue(ExitCode.SAVED, "preempted")


KEPT_OUT = replace(
    PREEMPTED, notice=None, step_status=83, node_count=1, outcomes=(Outcome.FAILED,), bad_nodes=("n3",)
)


@pytest.mark.parametrize(
    ("after", "record", "kind", "said"),
    [
        (KEPT_OUT, job(), Requeue, "its node is kept out of the run"),
        (replace(KEPT_OUT, bad_nodes=()), job(), Leave, "--exclude-bad-nodes N lets it come back on another"),
        (replace(KEPT_OUT, may_requeue=False), job(), Leave, "asked for no requeue"),
        (KEPT_OUT, job(state="CANCELLED"), Leave, "the job was cancelled"),
        (KEPT_OUT, None, Leave, "out of reach"),
        (replace(KEPT_OUT, node_count=2), job(), Leave, "ended by themselves with status 83"),
    ],
)
def test_a_job_whose_only_node_is_kept_out_comes_back_on_another_where_that_was_asked_for(
    after: Aftermath, record: JobRecord | None, kind: type[Leave | Requeue], said: str
) -> None:
    decision = decide(after, record)

    assert isinstance(decision, kind)
    assert decision.code == 83
    assert said in decision.why


ALONE = replace(PREEMPTED, notice=None, step_status=85, node_count=1, outcomes=(), others_may_come=True)


@pytest.mark.parametrize(
    ("after", "record", "kind", "said"),
    [
        (ALONE, job(), Requeue, "too few elements of the pool have a node"),
        (ALONE, None, Requeue, "out of reach"),
        (replace(ALONE, waits=MOST_WAITS), job(), Requeue, "too few elements of the pool have a node"),
        (replace(ALONE, waits=MOST_WAITS + 1), job(), Leave, "13 starts in a row waited for others in vain"),
        (replace(ALONE, others_may_come=False), job(), Leave, "ended by themselves with status 85"),
        (replace(ALONE, may_requeue=False), job(), Leave, "asked for no requeue"),
        (ALONE, job(state="CANCELLED"), Leave, "the job was cancelled"),
    ],
)
def test_an_element_that_waited_for_others_in_vain_waits_in_the_queue_as_long_as_others_may_come(
    after: Aftermath, record: JobRecord | None, kind: type[Leave | Requeue], said: str
) -> None:
    decision = decide(after, record)

    assert isinstance(decision, kind)
    assert decision.code == 85
    assert said in decision.why
