"""Why each start of a job ended, as far as the record says."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hpc_elastic.rendezvous.record import GUESTS, Closed, NodeState, Outcome, Presence, Reason
from hpc_elastic.status.endings import WITHOUT_A_WORD, earlier_ends, how_ended
from hpc_elastic.status.snapshot import AttemptSnapshot, RunSnapshot
from tests.unit.status.test_render import MEMBERS, NOTICE, RUN, STARTED, presence

HERE = tuple(presence(m.node, m.name, NodeState.CONFIRMED) for m in MEMBERS)
SECOND = AttemptSnapshot(replace(STARTED, number=2))
FAILED = Closed(2, 1, False, 1, 42, "exit code 42: budget of 3 spent", "", "w", node="n2", rank=2)
TOLD = AttemptSnapshot(STARTED, notice=NOTICE)


def gone(outcome: Outcome | None, reason: str = "") -> tuple[Presence, ...]:
    left = (presence(m.node, m.name, NodeState.LEFT, outcome) for m in MEMBERS)
    return tuple(replace(one, reason=reason) for one in left)


@pytest.mark.parametrize(
    ("run", "ended"),
    [
        (replace(RUN, presences=HERE), ""),
        (RUN, ""),
        (replace(RUN, attempts=(TOLD,), presences=HERE), ""),
        (replace(RUN, attempts=(TOLD,), presences=(*HERE[:1], *gone(Outcome.SAVED)[1:])), ""),
        (replace(RUN, attempts=(TOLD,), presences=gone(Outcome.SAVED)), "preempted, saved"),
        (replace(RUN, attempts=(TOLD, SECOND)), "preempted"),
        (
            replace(RUN, presences=gone(Outcome.UNSAVED, "the record was out of reach")),
            "unsaved: the record was out of reach",
        ),
        (replace(RUN, attempts=(*RUN.attempts, SECOND)), WITHOUT_A_WORD),
        (replace(RUN, attempts=(*RUN.attempts, SECOND), presences=HERE), WITHOUT_A_WORD),
        (
            replace(RUN, closings=(FAILED,), presences=gone(Outcome.FAILED)),
            "failed (rank 2 on n2): exit code 42: budget of 3 spent",
        ),
        (
            replace(RUN, closings=(replace(FAILED, node="", rank=-1),)),
            "failed: exit code 42: budget of 3 spent",
        ),
        (replace(RUN, attempts=(TOLD,), closings=(replace(FAILED, succeeded=True),)), "done"),
    ],
)
def test_the_first_start_has_ended_as_the_record_says(run: RunSnapshot, ended: str) -> None:
    assert how_ended(run, run.attempts[0]) == ended


def test_a_later_start_of_another_job_of_the_run_is_no_end() -> None:
    pool = tuple(AttemptSnapshot(replace(STARTED, number=n, share="hpc/70")) for n in (1, 2))
    guest = AttemptSnapshot(replace(STARTED, number=2, share=GUESTS))

    assert how_ended(replace(RUN, attempts=pool, presences=HERE), pool[0]) == ""
    assert how_ended(replace(RUN, attempts=(*RUN.attempts, guest), presences=HERE), RUN.attempts[0]) == ""


def test_each_reason_for_a_stop_is_told_in_its_words() -> None:
    for reason in Reason:
        told = AttemptSnapshot(STARTED, notice=replace(NOTICE, reason=reason))
        assert how_ended(replace(RUN, attempts=(told, SECOND)), told) == reason.in_words


def test_elements_that_live_and_guests_are_no_earlier_ends() -> None:
    pool = tuple(AttemptSnapshot(replace(STARTED, number=n, share="hpc/70")) for n in (1, 2))
    guest = AttemptSnapshot(replace(STARTED, number=2, share=GUESTS))
    failed = replace(RUN, attempts=(*RUN.attempts, SECOND), closings=(FAILED,))

    assert earlier_ends(replace(RUN, attempts=pool, presences=HERE)) == {}
    assert earlier_ends(replace(RUN, attempts=(guest, SECOND), presences=HERE)) == {}
    assert earlier_ends(failed) == {"failed": 1}
    assert earlier_ends(replace(RUN, attempts=(*RUN.attempts, SECOND))) == {"without a word": 1}
