"""What a site has made of a job is noticed, said, and set right where that can be done."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from hpc_elastic.slurm.commands import Answer
from hpc_elastic.submission import read_back

LINE = (
    "JobId=7 JobName=a Requeue=9 NumNodes=1 x UserId=u(1000) GroupId=g(1000) JobState=PENDING Reason=None "
    "Requeue={} Restarts=0 NumNodes={} NumCPUs=1 Command=/job.sh"
)


class Slurm:
    """Shows one job, and changes it or not."""

    def __init__(self, requeue: str, nodes: str, *, may_change: bool = True) -> None:
        self.line = LINE.format(requeue, nodes)
        self.may_change = may_change
        self.calls: list[tuple[str, ...]] = []

    def __call__(self, command: Sequence[str], timeout_s: float) -> Answer:
        self.calls.append(tuple(command))
        if "update" in command:
            return Answer(tuple(command), 0 if self.may_change else 1, "", "Access/permission denied")
        return Answer(tuple(command), 0, self.line)


@pytest.mark.parametrize("nodes", ["2", "2-8", "4"])
def test_a_job_that_is_as_asked_for_needs_one_look_and_no_word(nodes: str) -> None:
    slurm = Slurm("1", nodes)

    assert read_back.check("7", requeue=True, min_nodes=2, runner=slurm) == ()
    assert len(slurm.calls) == 1


@pytest.mark.parametrize(("wanted", "found"), [(True, "0"), (False, "1")])
def test_a_requeue_that_the_site_has_turned_round_is_set_right_and_said(wanted: bool, found: str) -> None:
    slurm = Slurm(found, "2")

    (said,) = read_back.check("7", requeue=wanted, min_nodes=2, runner=slurm)

    assert said == (
        f"Slurm took job 7 with Requeue={found}, which was not asked for; it is set to {int(wanted)}"
    )
    assert slurm.calls[-1] == ("scontrol", "update", "JobId=7", f"Requeue={int(wanted)}")


@pytest.mark.parametrize(
    ("wanted", "found", "means"),
    [(True, "0", "a preempted run goes on as a new job"), (False, "1", "Slurm itself may start it again")],
)
def test_one_that_cannot_be_changed_is_said_with_what_follows(wanted: bool, found: str, means: str) -> None:
    (said,) = read_back.check("7", requeue=wanted, min_nodes=1, runner=Slurm(found, "1", may_change=False))

    assert "Access/permission denied" in said
    assert means in said


def test_a_job_with_fewer_nodes_than_it_needs_is_named_with_what_to_type() -> None:
    (said,) = read_back.check("7", requeue=True, min_nodes=4, runner=Slurm("1", "2-3"))

    assert "NumNodes=2-3, and the run needs 4" in said
    assert "`scancel 7`" in said


@pytest.mark.parametrize(
    "answer", [Answer((), 127), Answer((), None), Answer((), 0, "JobId=8 JobState=RUNNING"), Answer((), 0)]
)
def test_a_job_that_is_not_shown_is_left_alone(answer: Answer) -> None:
    assert read_back.check("7", requeue=True, min_nodes=4, runner=lambda *_: answer) == ()
