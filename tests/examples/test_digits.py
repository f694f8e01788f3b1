"""The examples reach their accuracy however they are started, and however often they are interrupted."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest

from hpc_elastic.exit_codes import ExitCode
from tests.examples.example_runs import (
    DDP,
    NUMPY,
    TIMEOUT_S,
    RankLogs,
    accuracy_in,
    agent_command,
    run,
    started,
)
from tests.waiting import wait_until

EXAMPLES = [
    pytest.param(NUMPY, id="numpy"),
    pytest.param(DDP, id="ddp", marks=pytest.mark.needs_torch),
]


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_runs_as_one_plain_process(example: Path, tmp_path: Path) -> None:
    ended = run([sys.executable, example], tmp_path)

    assert ended.returncode == 0, ended.stdout
    assert accuracy_in(ended.stdout) >= 0.90
    assert "loss" in ended.stdout


@pytest.mark.needs_torch
def test_the_ddp_example_runs_unchanged_under_torchrun(tmp_path: Path) -> None:
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]

    ended = run([*torchrun, DDP], tmp_path)

    assert ended.returncode == 0, ended.stdout
    assert "rank 1 of 2 starts at step 0" in ended.stdout
    assert accuracy_in(ended.stdout) >= 0.90


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_interrupted_example_goes_on_at_the_very_step_and_ends_with_the_same_accuracy(
    example: Path, tmp_path: Path
) -> None:
    quick: list[str | Path] = ["--standalone", "--nproc-per-node", "2", example, "--steps", "200"]
    start: list[str | Path] = [*quick, "--print-every", "1", "--step-seconds"]
    undisturbed = run(agent_command(tmp_path / "undisturbed", *quick), tmp_path)
    assert undisturbed.returncode == 0, undisturbed.stdout
    logs = RankLogs(tmp_path / "interrupted")

    # So slow that nobody who comes late finds it done.
    with started(agent_command(logs.run_dir, *start, "0.3"), tmp_path / "first.out") as agent:
        wait_until(lambda: len(logs.steps(0)) > 10, timeout_s=TIMEOUT_S, what="10 steps of rank 0")
        agent.send_signal(signal.SIGUSR2)
        assert agent.wait(TIMEOUT_S) == ExitCode.SAVED, (tmp_path / "first.out").read_text()
    again = run(agent_command(logs.run_dir, *start, "0"), tmp_path)

    assert again.returncode == 0, again.stdout
    assert 10 < logs.starts(0)[-1] < 200, "the second start resumed in the middle"
    for rank in (0, 1):
        assert logs.steps(rank) == list(range(200)), f"rank {rank}: a gap or a repeat"
    reached = accuracy_in(logs.text(0))
    assert reached == accuracy_in(RankLogs(tmp_path / "undisturbed").text(0))
    assert reached >= 0.90


def test_a_damaged_checkpoint_is_skipped_for_the_one_before_it(tmp_path: Path) -> None:
    start: list[str | Path] = [sys.executable, NUMPY, "--save-every", "50"]
    assert run([*start, "--steps", "150"], tmp_path).returncode == 0
    newest = tmp_path / "checkpoints" / "numpy-00000150.npz"
    newest.write_bytes(newest.read_bytes()[:1000])

    ended = run([*start, "--steps", "300"], tmp_path)

    assert "which is damaged" in ended.stdout
    assert "starts at step 100 of 300" in ended.stdout
    assert accuracy_in(ended.stdout) >= 0.90
