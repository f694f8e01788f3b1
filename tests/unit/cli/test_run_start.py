"""Options and environment say which run, which start and which node this is, or are refused."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import pytest

from hpc_elastic.cli import run_options
from hpc_elastic.cli.run_start import Start, locate, resolve
from hpc_elastic.errors import UsageError
from hpc_elastic.rendezvous.standing import JobStart

SLURM: Final = {
    "SLURM_JOB_ID": "71",
    "SLURM_CLUSTER_NAME": "hpc",
    "SLURM_JOB_NODELIST": "n[1-4]",
    "SLURM_STEP_NODELIST": "n[1-4]",
    "SLURM_STEP_ID": "0",
    "SLURM_STEP_TASKS_PER_NODE": "1(x4)",
    "SLURMD_NODENAME": "n3",
    "SLURM_RESTART_COUNT": "2",
    "SLURM_SUBMIT_DIR": "/home/me",
    "HPC_ELASTIC_ALLOW_LOOPBACK": "1",
}
SIMULATED: Final = {
    "HPC_ELASTIC_NODE_NAME": "local1",
    "HPC_ELASTIC_NODE_INDEX": "1",
    "HPC_ELASTIC_NODE_COUNT": "2",
    "HPC_ELASTIC_JOB_ID": "local-ab",
    "HPC_ELASTIC_RESTART_COUNT": "3",
    "HPC_ELASTIC_ALLOW_LOOPBACK": "1",
}


def resolved(*words: str, **env: str) -> Start:
    return resolve(run_options.parse([*words, "train.py"]), env)


def test_a_slurm_job_gives_the_run_its_nodes_and_its_start() -> None:
    start = resolved(**SLURM)

    assert start.location.run_id == "hpc-71"
    assert start.location.run_dir == Path("/home/me/hpc_elastic_runs/hpc-71")
    assert start.start == JobStart("hpc", "71", "", 2, ("n1", "n2", "n3", "n4"))
    assert (start.seat.name, start.seat.order, start.seat.slots) == ("n3", 2, 1)
    assert (start.settings.min_nodes, start.settings.max_nodes, start.settings.expected_nodes) == (4, 4, 4)
    assert start.job is not None


def test_an_elastic_run_expects_no_more_nodes_than_the_job_has() -> None:
    assert resolved("--nnodes", "2:8", **SLURM).settings.expected_nodes == 4
    assert resolved("--nnodes", "2:3", **SLURM).settings.expected_nodes == 3


def test_a_pool_is_one_run_for_all_elements_of_its_array() -> None:
    array = {"SLURM_ARRAY_JOB_ID": "70", "SLURM_ARRAY_TASK_ID": "1", "SLURM_JOB_NODELIST": "n3"}
    env = {**SLURM, **array, "SLURM_STEP_NODELIST": "n3", "SLURM_STEP_TASKS_PER_NODE": "1"}

    assert resolved("--pool", "--nnodes", "2:8", **env).location.run_id == "hpc-70"
    assert resolved("--pool", "--nnodes", "2:8", **env).settings.expected_nodes == 8
    assert resolved(**env).location.run_id == "hpc-70_1"


def test_a_simulated_node_is_believed_even_inside_a_job() -> None:
    start = resolved("--nnodes", "2", **{**SLURM, **SIMULATED})

    assert start.job is None
    assert start.start == JobStart("local", "local-ab", "", 3)
    assert (start.seat.name, start.seat.order) == ("local1", 1)


def test_every_start_by_hand_is_a_start_of_its_own() -> None:
    assert resolved("--rdzv-id", "mine").start != resolved("--rdzv-id", "mine").start


def test_standing_alone_needs_no_job_and_no_name() -> None:
    start = resolved("--standalone", **SLURM)

    assert start.location.run_id.startswith("local-")
    assert start.settings.max_nodes == 1
    assert start.seat.address == "127.0.0.1"


def test_the_home_and_the_run_directory_can_be_chosen() -> None:
    options = run_options.parse(["--rdzv-id", "x", "train.py"])

    assert locate(options, {"HPC_ELASTIC_HOME": "/data"}).run_dir == Path("/data/x")
    assert run_options.run_directory(["--run-dir", "/r/y", "t.py"], {}) == Path("/r/y")
    assert run_options.run_directory(["--rdzv-id=x", "t.py"], {}) == Path.cwd() / "hpc_elastic_runs" / "x"


def test_what_follows_failures_has_the_documented_defaults_and_may_be_switched_off() -> None:
    usual = resolved().settings
    off = resolved("--restart-backoff", "0", "--same-failures", "0", "--node-failures", "0").settings

    assert (usual.max_restarts, usual.restart_backoff_s, usual.same_failures, usual.node_failures) == (
        3,
        1,
        3,
        3,
    )
    assert (off.restart_backoff_s, off.same_failures, off.node_failures) == (0, 0, 0)


def test_times_of_the_rendezvous_are_seconds_by_torchruns_names() -> None:
    settings = resolved("--rdzv-conf", "join_timeout=60,last_call=2,heartbeat=0.5").settings

    assert (settings.join_timeout_s, settings.last_call_s, settings.heartbeat_s) == (60, 2, 0.5)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--nnodes", "4:2"], "--nnodes 4:2: .* write 2:4"),
        (["--nnodes", "0"], "--nnodes 0: a run needs at least 1 node"),
        (["--nnodes", "x"], "--nnodes x: expected a number of nodes or a range"),
        (["--nnodes", "2"], "--nnodes 2:2 outside a Slurm job: set HPC_ELASTIC_JOB_ID"),
        (["--standalone", "--nnodes", "1:2"], "one node stands alone"),
        (["--nproc-per-node", "0"], "--nproc-per-node 0: expected"),
        (["--max-restarts", "-1"], "--max-restarts"),
        (["--restart-backoff", "-1"], "--restart-backoff -1: expected a number of seconds, 0 for none"),
        (["--restart-backoff", "nan"], "--restart-backoff nan: expected a number"),
        (["--same-failures", "-1"], "--same-failures -1: expected 0 or more"),
        (["--node-failures", "-1"], "--node-failures -1: expected 0 or more"),
        (["--shutdown-timeout", "0"], "--shutdown-timeout 0: expected"),
        (["--notice-signal", "KILL"], "--notice-signal KILL: expected names"),
        (["--notice-signal", "FOO"], "--notice-signal FOO: expected names"),
        (["--rdzv-conf", "jion_timeout=3"], "--rdzv-conf jion_timeout=3: expected KEY=VALUE"),
        (["--rdzv-conf", "heartbeat=fast"], "'fast' is not a number"),
        (["--rdzv-id", "../x"], "--rdzv-id '../x' cannot name a directory"),
        (["--rdzv-backend", "carrier-pigeon"], "carrier-pigeon"),
        (["--master-port", "70000"], "--master-port 70000: expected a port"),
        (["-m", "--no-python"], "exclude each other"),
    ],
)
def test_a_bad_value_is_refused_by_name(words: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        resolved(*words)


def test_no_script_is_refused() -> None:
    with pytest.raises(UsageError, match="no script given"):
        run_options.parse(["--nnodes", "2"])


def test_more_nodes_than_the_job_has_are_refused() -> None:
    with pytest.raises(UsageError, match=r"--nnodes 5:6: this job has 4 nodes; submit with --nodes=5"):
        resolved("--nnodes", "5:6", **SLURM)


def test_a_lone_agent_in_the_batch_shell_of_a_larger_job_is_refused() -> None:
    env = {name: value for name, value in SLURM.items() if not name.startswith("SLURM_STEP")}

    with pytest.raises(UsageError, match="srun --ntasks-per-node=1 hpc-elastic run"):
        resolved(**env)


def test_a_malformed_number_in_the_environment_is_named() -> None:
    with pytest.raises(UsageError, match="HPC_ELASTIC_NODE_INDEX=one: expected a whole number"):
        resolved(**{**SIMULATED, "HPC_ELASTIC_NODE_INDEX": "one"})


def test_nothing_is_created_while_looking(tmp_path: Path) -> None:
    resolved("--run-dir", str(tmp_path / "run"), HOME=os.devnull)

    assert list(tmp_path.iterdir()) == []


def test_a_current_directory_that_is_gone_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()

    with pytest.raises(UsageError, match="current directory is not there any more; change to one"):
        resolved(**SIMULATED)
