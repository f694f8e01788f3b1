"""The job that goes on where a run's own job cannot come back."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hpc_elastic.slurm import job_record
from hpc_elastic.slurm.commands import Answer
from hpc_elastic.slurm.continuation import Continuation, options
from hpc_elastic.slurm.requester import ASKED_SHELL, Report, Requester
from tests.unit.slurm import recorded
from tests.unit.slurm.aftermaths import PREEMPTED, job
from tests.unit.slurm.fakes import FakeScontrol, refused
from tests.unit.slurm.records import job_text

FURTHER = Continuation(("--run-dir", "/r", "train.py"), "2-4", "night", "hpc-elastic:r:71:0", Path("/r/c.sh"))
TAKEN = {"state": "COMPLETING", "preempt": "2026-03-01T12:10:00", "end": "2026-03-01T12:10:00"}


class Slurm:
    """A controller that has ended job 71, and what it was asked to submit."""

    def __init__(self, **record: str) -> None:
        self.record = record or TAKEN
        self.submitted: list[str] = []
        self.submits: Answer | str | None = "72\n"
        self.requeues: Answer | str = refused("Requested operation is presently disabled")
        self.listed = ""
        self.scontrol = FakeScontrol(self.answer)

    def answer(self, words: str) -> Answer | str | None:
        if words.startswith("show job -o 72"):
            return job_text(id="72", state="PENDING")
        if words.startswith("show job"):
            return job_text(**self.record)
        if words.startswith("--noheader"):
            return self.listed
        if words.startswith("--parsable"):
            self.submitted.append(words)
            return self.submits
        return self.requeues if words.startswith(("requeue", "update")) else ""

    def settle(self, taken: frozenset[int] = frozenset(), further: Continuation | None = FURTHER) -> Report:
        scontrol = self.scontrol
        requester = Requester(
            lambda number: number not in taken,
            "resume",
            scontrol.controller(),
            scontrol.clock,
            further,
            "why",
        )
        return requester.settle(replace(PREEMPTED, grace_s=0.0))


def test_it_has_the_options_of_the_old_job_waits_for_its_end_and_goes_on_with_the_same_run() -> None:
    slurm = Slurm()

    report = slurm.settle()

    assert "continuation job 72 goes on with the run (state PENDING)" in report.message
    assert report.continued_by == "72"
    (words,) = slurm.submitted
    for option in (
        "--partition=low",
        "--time=1-00:00:00",
        "--nodes=2-4",
        "--job-name=night",
        "--chdir=/home/ann",
    ):
        assert f" {option} " in words
    for option in ("--comment=hpc-elastic:r:71:0", "--dependency=afterany:71", "--export=ALL", "--requeue"):
        assert f" {option} " in words
    assert words.endswith("/r/c.sh --run-dir /r train.py")
    assert "write batch_script 71 /r/c.sh" in slurm.scontrol.asked


def test_the_second_of_two_requesters_finds_the_job_of_the_first_and_submits_none() -> None:
    slurm = Slurm()
    slurm.listed = "71 (null)\n72 hpc-elastic:r:71:0\n"

    assert "continuation job 72" in slurm.settle(taken=frozenset({0})).message
    assert "continuation job 72" in slurm.settle().message, "nor does one that takes an old claim over"
    assert slurm.submitted == []


def test_an_sbatch_that_was_cut_off_may_have_been_heard() -> None:
    slurm = Slurm()
    slurm.submits = None
    heard = slurm.answer

    def answer(words: str) -> Answer | str | None:
        slurm.listed = "72 hpc-elastic:r:71:0" if slurm.submitted else ""
        return heard(words)

    slurm.scontrol.answer = answer

    assert "continuation job 72" in slurm.settle().message
    assert len(slurm.submitted) == 1


@pytest.mark.parametrize("requeue", ["0", "1"])
def test_a_job_that_may_not_be_requeued_goes_on_as_another_one(requeue: str) -> None:
    slurm = Slurm(state="RUNNING", preempt="2026-03-01T12:10:00", requeue=requeue)

    report = slurm.settle()

    assert "presently disabled" in report.message
    assert "continuation job 72" in report.message


def test_a_job_that_is_cancelled_while_the_requeue_is_refused_stays_cancelled() -> None:
    slurm = Slurm(state="RUNNING", preempt="2026-03-01T12:10:00")
    heard = slurm.answer

    def answer(words: str) -> Answer | str | None:
        if words.startswith("requeue"):
            slurm.record = {"state": "CANCELLED"}
        return heard(words)

    slurm.scontrol.answer = answer

    assert "does not come back" in slurm.settle().message
    assert slurm.submitted == []


@pytest.mark.parametrize("is_cancelled_after", [0, 1])
def test_a_run_that_is_cancelled_meanwhile_goes_on_as_no_other_job(is_cancelled_after: int) -> None:
    """Before it was submitted, or before who cancelled could know of it."""
    slurm = Slurm()
    scontrol = slurm.scontrol
    requester = Requester(
        lambda number: True,
        "resume",
        scontrol.controller(),
        scontrol.clock,
        FURTHER,
        is_unwanted=lambda: len(slurm.submitted) >= is_cancelled_after,
    )

    report = requester.settle(replace(PREEMPTED, grace_s=0.0))

    assert "the run was cancelled meanwhile" in report.message
    assert report.continued_by == ""
    assert len(slurm.submitted) == is_cancelled_after
    assert ("72" in scontrol.asked) == bool(is_cancelled_after), "the one that was submitted is cancelled"


def test_where_no_job_can_go_on_or_slurm_refuses_it_the_reason_is_said() -> None:
    slurm = Slurm()
    slurm.submits = refused("Batch job submission failed: Job violates accounting/QOS policy")

    assert "violates accounting/QOS policy" in slurm.settle().message
    assert "does not come back: why; resume" in slurm.settle(further=None).message


def test_a_controller_out_of_reach_is_no_reason_for_a_second_job() -> None:
    slurm = Slurm(state="RUNNING", preempt="2026-03-01T12:10:00")
    slurm.requeues = refused("Unable to contact slurm controller")

    assert "does not come back" in slurm.settle().message
    assert slurm.submitted == []


@pytest.mark.parametrize("path", sorted(Path("tests/recordings").glob("*/*.txt")), ids=str)
def test_every_recorded_job_gives_options_that_stand_alone(path: Path) -> None:
    for line in path.read_text().splitlines():
        job_id = line.removeprefix("JobId=").partition(" ")[0]
        found = job_record.fields(line, job_id)
        if found is not None:
            given = options(found, job_id)
            assert all(one.startswith("--") and "(null)" not in one for one in given)


@pytest.mark.parametrize("release", recorded.RELEASES)
def test_a_job_asks_for_the_same_again_on_every_release(release: str) -> None:
    same = [
        "--partition=low",
        "--time=00:10:00",
        "--chdir=/home/ann/work",
        "--output=/home/ann/work/slurm-%j.out",
    ]
    found = {name: recorded.options_of(release, name) for name in ("running", "pending")}

    assert sorted(found["running"]) == sorted([*same, "--cpus-per-task=2"])
    assert sorted(found["pending"]) == sorted([*same, "--cpus-per-task=1", "--exclusive"])


@pytest.mark.parametrize(
    ("fields", "given"),
    [
        ({"TresPerTask": "cpu=2"}, ()),
        ({"TresPerTask": "cpu=2,gres/gpu:a100=1"}, ("--gpus-per-task=a100:1",)),
        ({"TresPerTask": "gres:gpu:1"}, ("--gpus-per-task=1",)),
        ({"TresPerNode": "gres/gpu=4"}, ("--gres=gpu:4",)),
        ({"OverSubscribe": "NO"}, ("--exclusive",)),
        ({"OverSubscribe": "NO", "Exclusive": "NO"}, ()),
        ({"OverSubscribe": "NO", "Exclusive": "NODE"}, ("--exclusive",)),
        ({"OverSubscribe": "NO", "Exclusive": "USER"}, ("--exclusive=user",)),
    ],
)
def test_words_that_newer_releases_write_otherwise_mean_the_same(
    fields: dict[str, str], given: tuple[str, ...]
) -> None:
    assert options(fields, "71") == given


def test_generic_resources_are_named_as_sbatch_wants_them() -> None:
    fields = {"TresPerNode": "gres:gpu:a100:4", "TresPerJob": "gres/gpu:8", "OverSubscribe": "NO"}
    shown = {"StdOut": "/h/slurm-71.out", "MinMemoryNode": "4000M", "MinMemoryCPU": "0"}

    assert options(fields | shown, "71") == (
        "--mem=4000M",
        "--gres=gpu:a100:4",
        "--gpus=8",
        "--output=/h/slurm-%j.out",
        "--exclusive",
    )


def test_bad_nodes_are_excluded_beside_those_that_were_before() -> None:
    slurm = Slurm()

    FURTHER.submit(slurm.scontrol.controller(), "71", ("n3",))

    assert " --exclude=n3 " in slurm.submitted[0]


def test_where_the_job_cannot_come_back_the_shell_is_given_the_words_of_a_continuation_job(
    tmp_path: Path,
) -> None:
    further = Continuation(("--nnodes", "2", "train.py", "a b"), "2", "night", "mark", tmp_path / "c.sh")
    requester = Requester(lambda number: True, "submit again", continuation=further)
    taken = job_text(state="COMPLETING", preempt="2026-03-01T12:10:00", end="2026-03-01T12:10:00")
    fields, found = job_record.fields(taken, "71"), job_record.parse(taken, "71")

    report = requester.hand_over(replace(PREEMPTED, grace_s=0.0), found, fields)

    assert report.message.endswith(f"so the batch shell submits what is in {tmp_path}/c.words")
    assert report.is_open
    options, _, words = (tmp_path / "c.words").read_text().partition("\0--\0")
    assert "--dependency=afterany:71" in options.split("\0")
    assert words == "--nnodes\x002\0train.py\0a b\0"
    refusal = requester.hand_over(PREEMPTED, job(), fields)
    assert refusal.message.endswith(f"{ASKED_SHELL}, or submits what is in {tmp_path}/c.words")
    assert "does not come back" in requester.hand_over(replace(PREEMPTED, grace_s=0.0), found).message


def test_an_element_of_an_array_goes_on_with_its_index_and_waits_for_itself_alone() -> None:
    """The plain id of its last element is that of the whole array."""
    fields = {"ArrayJobId": "71", "ArrayTaskId": "3", "StdOut": "/h/71_3.out"}
    element = replace(FURTHER, array_task="3", nodes="1")

    given = element.options(fields, "71")

    assert "--array=3" in given
    assert "--dependency=afterany:71_3" in given
    assert "--output=/h/71_3.out" in given
