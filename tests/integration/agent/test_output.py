"""What an agent does with the output of its workers, by the options that torchrun's users know."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.agent.agents import Agents, agents_in


@pytest.fixture
def agents(tmp_path: Path) -> Iterator[Agents]:
    with agents_in(tmp_path) as agents:
        yield agents


def test_filtered_lines_of_all_ranks_are_in_one_log_beside_their_own_in_the_chosen_folder(
    agents: Agents, tmp_path: Path
) -> None:
    script = agents.script(
        "import os, sys\n"
        "rank = os.environ['RANK']\n"
        "for n in range(3): print('loss' if n == 1 else 'noise', rank)\n"
        "print('oops', rank, file=sys.stderr)\n"
    )
    agents.start(
        0,
        *("--nproc-per-node", "2", "--rdzv-id", "mine", "--log-dir", tmp_path / "logs"),
        *("--duplicate_stdout_filters", "loss,never", "--duplicate_stderr_filters=oops"),
        script,
    )

    assert agents.statuses() == {"n0": 0}, agents.console("n0")
    folder = tmp_path / "logs" / "mine" / "1" / "1"
    assert sorted((folder / "filtered_stdout.n0.log").read_text().splitlines()) == [
        "[n0 0] loss 0",
        "[n0 1] loss 1",
    ]
    assert sorted((folder / "filtered_stderr.n0.log").read_text().splitlines()) == [
        "[n0 0] oops 0",
        "[n0 1] oops 1",
    ]
    assert (folder / "1.out").read_text() == "noise 1\nloss 1\nnoise 1\n"
    assert agents.output(1, 1) == ["noise 1", "loss 1", "noise 1"]  # by its usual path


def test_a_requeue_overwrites_nothing_and_shows_nothing_twice(agents: Agents, tmp_path: Path) -> None:
    script = agents.script(
        "import os, sys\n"
        "print('life', os.environ['HPC_ELASTIC_ATTEMPT'])\n"
        "sys.exit(3 if os.environ['HPC_ELASTIC_ATTEMPT'] == '1' else 0)\n"
    )
    options = ("--max-restarts", "0", "--log-dir", tmp_path / "logs", "--rdzv-id", "r", script)
    agents.start(0, *options)
    assert agents.status("n0") == 3

    agents.start(0, *options, restart=1)

    assert agents.status("n0") == 0, agents.console("n0")
    assert agents.output(0, 1) == ["life 1"]
    (second,) = (tmp_path / "logs" / "r" / "2").glob("*/0.out")
    assert second.read_text() == "life 2\n"
    shown = [line for line in agents.console("n0").splitlines() if line.startswith("[n0 0] ")]
    assert shown == ["[n0 0] life 1", "[n0 0] life 2"]


def test_nothing_that_a_worker_says_at_its_very_end_is_lost(agents: Agents) -> None:
    script = agents.script(
        "import os, signal\n"
        "os.write(1, b''.join(b'line %d\\n' % n for n in range(20000)) + b'no end of a line')\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    agents.start(0, "--max-restarts", "0", "--tee", "1", script)

    assert agents.status("n0") == 137
    shown = [line for line in agents.console("n0").splitlines() if line.startswith("[n0 0] ")]
    assert shown == [*(f"[n0 0] line {n}" for n in range(20000)), "[n0 0] no end of a line"]


def test_events_go_to_a_named_sink_beside_their_file(agents: Agents) -> None:
    agents.start(0, "--event-log-handler", "console", agents.script("print('ran')"))

    assert agents.status("n0") == 0
    lines = (agents.run_dir / "events" / "n0.jsonl").read_text().splitlines()
    shown = agents.console("n0").splitlines()
    assert len(lines) >= 4
    assert [line for line in lines if line not in shown] == []


def test_a_sink_that_nobody_knows_is_refused_before_anything_is_made(agents: Agents) -> None:
    agents.start(0, "--event-log-handler", "nowhere", agents.script("print('ran')"))

    assert agents.status("n0") == 64
    assert "event sink 'nowhere' is not known" in agents.console("n0")
    assert not agents.run_dir.exists()


def test_each_worker_sees_its_own_device_as_the_first(agents: Agents) -> None:
    names = ("LOCAL_RANK", "CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")
    script = agents.script(f"import os\nprint(*(os.environ[name] for name in {names}))")
    given = {"CUDA_VISIBLE_DEVICES": "1,0", "ROCR_VISIBLE_DEVICES": "6,7"}
    agents.start(0, "--virtual-local-rank", "--nproc-per-node", "gpu", script, environment=given)

    assert agents.status("n0") == 0, agents.console("n0")
    assert [agents.output(rank, 1) for rank in range(2)] == [["0 0 7"], ["0 0 6"]]


def test_more_workers_than_devices_are_refused_before_anything_is_made(agents: Agents) -> None:
    agents.start(
        0,
        *("--virtual-local-rank", "--nproc-per-node", "3"),
        agents.script(""),
        environment={"CUDA_VISIBLE_DEVICES": "0,1"},
    )

    assert agents.status("n0") == 64
    assert "shows 2 devices, local rank 2 wants its own" in agents.console("n0")
    assert not os.path.lexists(agents.run_dir)
