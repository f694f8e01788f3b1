"""One rank of a DDP job dies by SIGKILL: the whole group restarts and goes on from its checkpoint."""

from __future__ import annotations

import os
import signal
from contextlib import ExitStack
from pathlib import Path

import pytest

from hpc_elastic.testing.sandbox import Sandbox
from tests.examples.example_runs import RankLogs, accuracy_in, agent_command, started
from tests.integration.slurm.bench import Bench
from tests.integration.torch import held_ddp
from tests.waiting import wait_until

pytestmark = pytest.mark.needs_torch

STEPS = 200
PATIENCE_S = 240.0
SCRIPT = held_ddp.__file__
OPTIONS = ["--steps", str(STEPS), "--step-seconds", "0.02", "--save-every", "20", "--print-every", "1"]


def pid_of_rank(rank: int, run_dir: Path) -> int:
    """The process that is one rank of the run in `run_dir`, found by what the agent has told it."""
    wanted = {f"RANK={rank}".encode(), f"HPC_ELASTIC_RUN_DIR={run_dir}".encode()}
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if wanted <= set((process / "environ").read_bytes().split(b"\0")):
                found.append(int(process.name))
        except OSError:
            continue  # it has ended, or is not ours
    assert len(found) == 1, f"rank {rank} should be one process, found {found}"
    return found[0]


def kill_one_rank_in_the_middle(logs: RankLogs) -> None:
    wait_until(lambda: len(logs.steps(3)) > 50, timeout_s=PATIENCE_S, what="50 steps of rank 3")
    os.kill(pid_of_rank(3, logs.run_dir), signal.SIGKILL)


def assert_resumed_and_finished(logs: RankLogs) -> None:
    """A second round of the same attempt went on at a checkpoint, and nothing before it was lost."""
    rounds = logs.rounds()
    assert len(rounds) == 2, rounds
    assert rounds[0][0] == rounds[1][0], "the group restarts inside the attempt"
    for rank in range(4):
        first, second = logs.starts(rank)
        assert first == 0
        assert second >= 40, "at the latest checkpoint, not at the beginning"
        assert second % 20 == 0
        assert logs.steps(rank)[-(STEPS - second) :] == list(range(second, STEPS))
    assert accuracy_in(logs.text(0)) >= 0.90


@pytest.mark.needs_slurm
def test_a_slurm_job_goes_on_from_its_checkpoint_when_a_rank_is_killed(slurm_sandbox: Sandbox) -> None:
    bench = Bench(slurm_sandbox, slurm_sandbox.user_directory())

    job = bench.submit("-N", "2", words=("--nproc-per-node", "2", SCRIPT, *OPTIONS))
    logs = RankLogs(bench.run_dir(job))
    kill_one_rank_in_the_middle(logs)
    state, code, lines = bench.end_of(job, timeout_s=PATIENCE_S)

    assert (state, code) == ("COMPLETED", "0:0"), "\n".join(lines)
    assert slurm_sandbox.job(job)["Restarts"] == "0", "the agents restart the group, not Slurm the job"
    assert bench.run(job).rounds[1].proposal.failures == 1
    assert_resumed_and_finished(logs)


def test_two_agents_go_on_from_their_checkpoint_when_a_rank_is_killed(tmp_path: Path) -> None:
    logs = RankLogs(tmp_path / "run")
    command = agent_command(logs.run_dir, "--nnodes", "2", "--nproc-per-node", "2", SCRIPT, *OPTIONS)

    with ExitStack() as stack:
        agents = [
            stack.enter_context(
                started(
                    command,
                    tmp_path / f"n{index}.out",
                    {
                        "HPC_ELASTIC_JOB_ID": "7",
                        "HPC_ELASTIC_NODE_NAME": f"n{index}",
                        "HPC_ELASTIC_NODE_INDEX": str(index),
                        "HPC_ELASTIC_NODE_COUNT": "2",
                        "HPC_ELASTIC_ALLOW_LOOPBACK": "1",
                    },
                )
            )
            for index in (0, 1)
        ]
        kill_one_rank_in_the_middle(logs)
        ends = [agent.wait(PATIENCE_S) for agent in agents]

    consoles = "\n".join((tmp_path / f"n{index}.out").read_text() for index in (0, 1))
    assert ends == [0, 0], consoles
    assert_resumed_and_finished(logs)
