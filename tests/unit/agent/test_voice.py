"""What an agent says is short, and it does not chatter while it waits."""

from __future__ import annotations

from pathlib import Path

from hpc_elastic.agent import voice
from hpc_elastic.agent.inputs import How, WorkerEnd
from hpc_elastic.rendezvous.record import Member, Reason, Round
from hpc_elastic.values import replace
from hpc_elastic.workers.logs import LogFiles


def test_a_round_is_told_from_this_nodes_side() -> None:
    members = (Member("a", "n0", 2, "default", ""), Member("b", "n1", 1, "default", ""))
    agreed = Round(3, (1,), members, "", 0, "member lost", 0, 0, "", "a")

    assert voice.round_started(agreed, 0) == "round 3: ranks 0 to 1 of 3 on 2 nodes (member lost)"
    assert voice.round_started(agreed, 1) == "round 3: rank 2 of 3 on 2 nodes (member lost)"
    assert voice.round_started(replace(agreed, left_out=("n2",)), 1) == (
        "round 3: rank 2 of 3 on 2 nodes (member lost); without n2, left out of the run"
    )


def test_the_cpus_of_a_node_are_told_and_too_few_are_named() -> None:
    """Since Slurm 22.05 a step does not have the job's --cpus-per-task by itself."""
    assert voice.seats(2, 8) == "2 workers on this one with 8 CPUs"
    assert (
        voice.seats(4, 1) == "4 workers on this one with 1 CPU (few: ask srun for more with --cpus-per-task)"
    )


def test_a_failed_worker_is_shown_with_its_log_and_its_last_lines(tmp_path: Path) -> None:
    files = LogFiles.of(tmp_path, 3)
    files.err.write_text("".join(f"line {number}\n" for number in range(50)))
    end = WorkerEnd(0, 3, 1, How.FAILED, "ValueError: boom")

    assert voice.worker_failed(end, files) == f"rank 3 failed: ValueError: boom; its log is {files.err}"
    assert voice.end_of_log(files) == [f"    line {number}" for number in range(38, 50)]


def test_workers_that_could_not_be_started_have_no_log() -> None:
    end = WorkerEnd(-1, -1, 1, How.FAILED, "out of processes")

    assert voice.worker_failed(end, None) == "the workers could not be started: out of processes"


def test_a_notice_of_unknown_cause_says_so() -> None:
    assert voice.heard("SIGTERM", Reason.UNKNOWN, 30.2) == "heard SIGTERM: cause not known yet, 30 s left"
    assert voice.asking(Reason.PREEMPTED, 14.0) == "asking the workers to save and stop: preempted, 14 s left"


def test_a_short_wait_is_not_worth_a_line() -> None:
    said: list[str] = []
    waiting = voice.Waiting(said.append)

    waiting.go_on("1 of 2 nodes here", 100.0)
    waiting.go_on("1 of 2 nodes here", 102.0)

    assert said == []


def test_a_long_wait_says_for_whom_once_and_on_change() -> None:
    said: list[str] = []
    waiting = voice.Waiting(said.append)

    for second in range(20):
        waiting.go_on("1 of 3 nodes here" if second < 10 else "2 of 3 nodes here", 100.0 + second)
    waiting.over()
    waiting.go_on("1 of 3 nodes here", 200.0)

    assert said == ["1 of 3 nodes here", "2 of 3 nodes here"]
