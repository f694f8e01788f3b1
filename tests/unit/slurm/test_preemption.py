"""The cause of a signal and the time it leaves, by the job's record."""

from __future__ import annotations

import signal

import pytest

from hpc_elastic.agent.notices import Bettered, Kind
from hpc_elastic.rendezvous.record import Reason, Scope
from hpc_elastic.slurm import job_record
from hpc_elastic.slurm.preemption import SlurmNoticeSource, margin_s, reason_of, time_left_s
from tests.unit.slurm.fakes import FakeScontrol, refused
from tests.unit.slurm.records import RELEASES, job_text

CONFIG = "KillWait                = 5 sec\n"
# Ten minutes into the job, twenty seconds of grace.
PREEMPTED = {"preempt": "2026-03-01T12:10:00", "end": "2026-03-01T12:10:20"}
NEAR_LIMIT = {"end": "2026-03-01T12:11:30", "limit": "00:11:30"}
BOTH = (Kind.NOTICE, Kind.TERMINATE)


# (kinds of signal, the record, cause, seconds left)
TABLE: list[tuple[tuple[Kind, ...], dict[str, str], Reason, float]] = [
    (BOTH, PREEMPTED, Reason.PREEMPTED, 20.0),
    (BOTH, PREEMPTED | {"state": "SIGNALING"}, Reason.PREEMPTED, 20.0),
    (BOTH, PREEMPTED | {"run": "00:10:15"}, Reason.PREEMPTED, 5.0),
    (BOTH, PREEMPTED | {"end": "Unknown"}, Reason.PREEMPTED, 30.0),
    (BOTH, PREEMPTED | {"limit": "UNLIMITED"}, Reason.PREEMPTED, 20.0),
    (BOTH, PREEMPTED | {"state": "COMPLETING"}, Reason.PREEMPTED, 5.0),
    (BOTH, PREEMPTED | {"state": "PENDING", "reason": "BeginTime"}, Reason.PREEMPTED, 5.0),
    (BOTH, {"state": "COMPLETING", "reason": "TimeLimit"}, Reason.TIME_LIMIT, 5.0),
    (BOTH, {"state": "TIMEOUT"}, Reason.TIME_LIMIT, 5.0),
    (BOTH, {"state": "COMPLETING"}, Reason.CANCELLED, 5.0),
    (BOTH, {"state": "CANCELLED"}, Reason.CANCELLED, 5.0),
    (BOTH, {"state": "PENDING", "reason": "BeginTime", "restarts": "1"}, Reason.REQUEUED, 5.0),
    (BOTH, {"state": "COMPLETING", "restarts": "1", "end": "Unknown"}, Reason.REQUEUED, 5.0),
    ((Kind.NOTICE,), NEAR_LIMIT, Reason.TIME_LIMIT, 90.0),
    ((Kind.NOTICE,), {}, Reason.USER, 600.0),
    ((Kind.NOTICE,), {"limit": "UNLIMITED", "end": "Unknown"}, Reason.USER, 600.0),
    ((Kind.TERMINATE,), {}, Reason.UNKNOWN, 30.0),
    ((Kind.TERMINATE,), NEAR_LIMIT, Reason.UNKNOWN, 30.0),
    (BOTH, {"state": "SUSPENDED"}, Reason.UNKNOWN, 5.0),
    # The batch shell was killed: nobody has cancelled.
    (BOTH, {"state": "COMPLETING", "reason": "JobLaunchFailure"}, Reason.UNKNOWN, 5.0),
    (BOTH, {"state": "CANCELLED", "reason": "JobLaunchFailure"}, Reason.CANCELLED, 5.0),
]


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize(("kinds", "changed", "reason", "seconds"), TABLE)
def test_signal_and_record_give_the_cause_and_the_time_left(
    kinds: tuple[Kind, ...], changed: dict[str, str], reason: Reason, seconds: float, release: str
) -> None:
    record = job_record.parse(job_text(release, **changed), "71")
    assert record is not None

    for kind in kinds:
        assert reason_of(kind, record, restart_count=0) is reason
    assert time_left_s(reason, record, kill_wait_s=5.0, shutdown_timeout_s=30.0) == seconds


def test_the_margin_leaves_something_of_every_deadline() -> None:
    assert [margin_s(left_s) for left_s in (0.0, 2.0, 5.0, 20.0, 60.0, 600.0)] == [
        0.0,
        1.0,
        1.0,
        2.0,
        5.0,
        5.0,
    ]


def source(scontrol: FakeScontrol, scope: Scope = Scope.RUN) -> SlurmNoticeSource:
    return SlurmNoticeSource(
        "71", 0, shutdown_timeout_s=30.0, controller=scontrol.controller(), clock=scontrol.clock, scope=scope
    )


def test_a_signal_alone_is_read_without_a_question_and_gets_the_shortest_deadline() -> None:
    scontrol = FakeScontrol(lambda words: "")
    heard = [source(scontrol, Scope.NODE).read(number) for number in (signal.SIGTERM, signal.SIGUSR2)]

    assert [one.kind for one in heard] == [Kind.TERMINATE, Kind.NOTICE]
    assert {(one.reason, one.scope, one.seconds_left) for one in heard} == {
        (Reason.UNKNOWN, Scope.NODE, 30.0)
    }
    assert [one.signal for one in heard] == ["SIGTERM", "SIGUSR2"]
    assert scontrol.asked == []


def test_a_preemption_is_told_by_one_question_and_leaves_the_grace_time_less_a_margin() -> None:
    scontrol = FakeScontrol(lambda words: job_text(**PREEMPTED))
    ear = source(scontrol)
    ear.read(signal.SIGTERM)

    assert ear.ask() == Bettered(Reason.PREEMPTED, 18.0)
    assert scontrol.asked == ["show job -o 71"]


def test_without_a_time_limit_the_grace_time_is_that_of_the_partition() -> None:
    """Slurm 22.05.8 shows no EndTime for a preempted job without a limit."""
    line = job_text(**PREEMPTED | {"end": "Unknown", "limit": "UNLIMITED", "run": "00:10:05"})
    scontrol = FakeScontrol(
        lambda words: line if "job" in words else "PartitionName=low DefaultTime=NONE GraceTime=120 Hidden=NO"
    )

    assert source(scontrol).ask() == Bettered(Reason.PREEMPTED, 115.0 - margin_s(115.0))
    assert scontrol.asked == ["show job -o 71", "show partition -o low"]


def test_a_grace_time_that_nobody_tells_is_taken_for_the_shutdown_timeout() -> None:
    line = job_text(**PREEMPTED | {"end": "Unknown"})
    scontrol = FakeScontrol(lambda words: line if "job" in words else refused("Access denied"))

    assert source(scontrol).ask() == Bettered(Reason.PREEMPTED, 30.0 - margin_s(30.0))


def test_a_cancel_leaves_the_sites_kill_wait_less_a_margin_and_less_what_the_answer_took() -> None:
    answers = iter([None, job_text(state="COMPLETING"), CONFIG.replace("5 sec", "30 sec")])
    scontrol = FakeScontrol(lambda words: next(answers))
    ear = source(scontrol)
    ear.read(signal.SIGTERM)

    left_s = 30.0 - 4.0 - 0.5
    assert ear.ask() == Bettered(Reason.CANCELLED, left_s - margin_s(left_s))


def test_a_site_that_hides_its_configuration_is_taken_to_have_slurms_own_kill_wait() -> None:
    scontrol = FakeScontrol(
        lambda w: job_text(state="COMPLETING") if "job" in w else refused("Access denied")
    )

    bettered = source(scontrol).ask()

    assert bettered == Bettered(Reason.CANCELLED, 30.0 - margin_s(30.0))


@pytest.mark.parametrize("answer", [None, refused("not in PATH", 127), refused("Invalid job id"), "what?"])
def test_without_an_answer_nothing_is_known_better(answer: object) -> None:
    scontrol = FakeScontrol(lambda words: answer)  # type: ignore[arg-type, return-value]

    assert source(scontrol).ask() is None


@pytest.mark.parametrize(
    ("grace_s", "seconds"), [(None, 30.0), (0.0, 30.0), (10.0, 9.0), (50.0, 45.0), (600.0, 60.0)]
)
def test_the_grace_time_that_the_batch_shell_told_is_the_time_where_nobody_can_be_asked(
    grace_s: float | None, seconds: float
) -> None:
    source = SlurmNoticeSource("71", 0, shutdown_timeout_s=30.0, grace_s=grace_s)

    assert source.read(signal.SIGTERM).seconds_left == seconds
    assert source.read(signal.SIGUSR2).seconds_left == seconds
