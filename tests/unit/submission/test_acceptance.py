"""A job is sent again only where it was surely not heard; where it may have been, it is looked for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from hpc_elastic.errors import SubmissionError
from hpc_elastic.slurm.commands import Answer
from hpc_elastic.submission import acceptance
from hpc_elastic.submission.acceptance import Counter, Delivery, Reply
from tests.unit.submission.run_records import HandClock

FAILED = "sbatch: error: Batch job submission failed: "
AWAY = Reply.to_failure(f"{FAILED}Unable to contact slurm controller (connect failure)")
IN_DOUBT = Reply.to_failure(f"{FAILED}Socket timed out on send/recv operation")
TAKEN = Reply(Delivery.TAKEN, "7")
SCRIPT = Path("/run/submission/job-1.sh")

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


class Sbatch:
    """Gives one reply after the other, the last one for ever."""

    def __init__(self, *replies: Reply) -> None:
        self._replies = replies
        self.calls = 0

    def __call__(self) -> Reply:
        self.calls += 1
        return self._replies[min(self.calls, len(self._replies)) - 1]


class Queue:
    """Gives one answer after the other, the last one for ever."""

    def __init__(self, *outputs: str | None) -> None:
        self._outputs = outputs
        self.calls = 0

    def __call__(self, command: Sequence[str], timeout_s: float) -> Answer:
        self.calls += 1
        output = self._outputs[min(self.calls, len(self._outputs)) - 1]
        if output is None:
            return Answer(tuple(command), 1, "", "Unable to contact slurm controller (connect failure)")
        return Answer(tuple(command), 0, output)


@pytest.mark.parametrize(
    ("said", "delivery"),
    [
        ("invalid partition specified: gold", Delivery.REFUSED),
        ("Job violates accounting/QOS policy (job submit limit, ...)", Delivery.REFUSED),
        ("", Delivery.REFUSED),
        (f"{FAILED}Unable to contact slurm controller (connect failure)", Delivery.NOT_HEARD),
        (f"{FAILED}Communication connection failure", Delivery.NOT_HEARD),
        (f"{FAILED}Connection refused", Delivery.NOT_HEARD),
        (f"{FAILED}Slurm backup controller in standby mode", Delivery.NOT_HEARD),
        (f"{FAILED}Unable to contact slurm controller (send failure)", Delivery.IN_DOUBT),
        (f"{FAILED}Unable to contact slurm controller (receive failure)", Delivery.IN_DOUBT),
        (f"{FAILED}Socket timed out on send/recv operation", Delivery.IN_DOUBT),
        (f"{FAILED}Zero Bytes were transmitted or received", Delivery.IN_DOUBT),
        (f"{FAILED}Unexpected message received", Delivery.IN_DOUBT),
        (f"{FAILED}Connection reset by peer", Delivery.IN_DOUBT),
    ],
)
def test_each_complaint_of_sbatch_says_whether_the_job_was_heard(said: str, delivery: Delivery) -> None:
    assert Reply.to_failure(said).delivery is delivery


def test_a_job_that_was_not_heard_is_sent_again_until_it_is_taken() -> None:
    sbatch, queue, clock = Sbatch(AWAY, AWAY, AWAY, TAKEN), Queue(""), HandClock()

    assert Counter(clock, queue).hand_in(sbatch, SCRIPT) == "7"

    assert (sbatch.calls, queue.calls) == (4, 0)


def test_a_controller_that_stays_away_is_given_up_in_a_few_minutes_and_few_tries() -> None:
    sbatch, clock = Sbatch(AWAY), HandClock()
    began_s = clock.monotonic_s()

    with pytest.raises(SubmissionError, match=r"out of reach for 120 s and has no job: .*connect failure"):
        Counter(clock, Queue("")).hand_in(sbatch, SCRIPT)

    assert clock.monotonic_s() - began_s <= acceptance.PATIENCE_S
    assert 5 <= sbatch.calls <= 15


def test_a_refused_job_is_not_sent_again() -> None:
    sbatch = Sbatch(Reply.to_failure("invalid account"))

    with pytest.raises(SubmissionError, match="Slurm did not take the job: invalid account"):
        Counter(HandClock(), Queue("")).hand_in(sbatch, SCRIPT)

    assert sbatch.calls == 1


def test_a_job_that_may_have_been_taken_is_found_in_the_queue_and_not_sent_again() -> None:
    sbatch = Sbatch(AWAY, IN_DOUBT)
    queue = Queue(None, "", f"12 /other.sh\n13 {SCRIPT} --nnodes=1\n")

    assert Counter(HandClock(), queue).hand_in(sbatch, SCRIPT) == "13"

    assert (sbatch.calls, queue.calls) == (2, 3)


@pytest.mark.parametrize(
    ("output", "says"),
    [("12 /other.sh\n", "its queue shows none; look"), (None, r"its queue cannot be asked \(`squeue ")],
)
def test_a_job_in_doubt_that_is_not_found_is_left_to_the_person(output: str | None, says: str) -> None:
    sbatch, clock = Sbatch(IN_DOUBT), HandClock()
    began_s = clock.monotonic_s()

    with pytest.raises(SubmissionError, match=rf"did not say whether it took the job \(.*timed out.*{says}"):
        Counter(clock, Queue(output)).hand_in(sbatch, SCRIPT)

    assert sbatch.calls == 1
    assert clock.monotonic_s() - began_s <= acceptance.PATIENCE_S


def test_whoever_waits_is_told_what_for() -> None:
    with pytest.warns(RuntimeWarning, match="out of reach .*connect failure.*; it is tried for 120 s"):
        Counter(HandClock(), Queue("")).hand_in(Sbatch(AWAY, TAKEN), SCRIPT)
    with pytest.warns(RuntimeWarning, match="did not say whether .*; it is looked for in the queue"):
        Counter(HandClock(), Queue(f"5 {SCRIPT}")).hand_in(Sbatch(IN_DOUBT), SCRIPT)


@pytest.fixture(params=["/a b/job-1.sh", "/a\nb/job-1.sh", "/(x) $(y) 'z'/job-1.sh"])
def script(request: pytest.FixtureRequest) -> Path:
    return Path(request.param)


def test_a_job_is_found_by_its_whole_path_whatever_that_is(script: Path) -> None:
    assert acceptance.find(f"11 /c\n12 {script} --x\n13 {script}2\n", script) == "12"
    assert acceptance.find(f"12 {script}", script) == "12"
    assert acceptance.find(f"13 {script}2\n14 /bin/echo 12 {script}\n", script) is None
