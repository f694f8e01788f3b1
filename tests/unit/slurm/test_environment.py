"""A process's place in its Slurm job."""

from __future__ import annotations

import pytest

from hpc_elastic.errors import BadEnvironment
from hpc_elastic.exit_codes import ExitCode
from hpc_elastic.slurm.environment import JobEnvironment, TooManyTasks

BATCH = {
    "SLURM_CLUSTER_NAME": "alps",
    "SLURM_JOB_ID": "71",
    "SLURM_JOB_NODELIST": "n[1-4]",
    "SLURM_JOB_NUM_NODES": "4",
    "SLURM_NTASKS_PER_NODE": "1",
    "SLURM_TASKS_PER_NODE": "1(x4)",
    "SLURM_CPUS_ON_NODE": "2",
    "SLURMD_NODENAME": "n1",
    "SLURM_NODEID": "0",
}
STEP = BATCH | {
    "SLURM_STEP_ID": "0",
    "SLURM_STEP_NODELIST": "n[1-4]",
    "SLURM_STEP_TASKS_PER_NODE": "1(x4)",
    "SLURMD_NODENAME": "n3",
    "SLURM_NODEID": "2",
}


def parsed(environment: dict[str, str]) -> JobEnvironment:
    job = JobEnvironment.parse(environment)
    assert job is not None
    return job


def test_outside_slurm_there_is_no_job() -> None:
    assert JobEnvironment.parse({"SLURM_CONF": "/etc/slurm.conf"}) is None


def test_an_agent_finds_its_node_among_the_nodes_of_its_step() -> None:
    job = parsed(STEP)

    assert job.node_names == ("n1", "n2", "n3", "n4")
    assert (job.node_name, job.node_index, job.nnodes) == ("n3", 2, 4)
    assert job.is_step
    assert job.cpus_on_node == 2


def test_several_nodes_on_one_host_are_told_apart_by_slurms_name_for_them() -> None:
    names = [parsed(STEP | {"SLURMD_NODENAME": name, "HOSTNAME": "box"}).node_index for name in ("n1", "n2")]

    assert names == [0, 1]


def test_the_batch_shell_is_no_step_though_slurm_numbers_its_own_steps() -> None:
    assert not parsed(BATCH).is_step
    assert not parsed(BATCH | {"SLURM_STEP_ID": str(0xFFFFFFFB)}).is_step


def test_a_login_node_is_on_none_of_the_nodes() -> None:
    job = parsed({"SLURM_JOB_ID": "71", "SLURM_JOB_NODELIST": "n[1-4]"})

    assert (job.node_name, job.node_index) == ("", -1)


def test_the_first_life_of_a_job_has_no_restart_count_and_counts_as_zero() -> None:
    assert parsed(STEP).restart_count == 0
    assert parsed(STEP | {"SLURM_RESTART_COUNT": "2"}).restart_count == 2


def test_the_run_is_named_after_cluster_and_job() -> None:
    assert parsed(STEP).run_id() == "alps-71"
    assert parsed(STEP | {"SLURM_CLUSTER_NAME": ""}).run_id() == "slurm-71"
    assert parsed(STEP | {"SLURM_CLUSTER_NAME": "../big one"}).run_id() == "big-one-71"


def test_an_element_of_an_array_is_its_own_run_and_in_a_pool_a_part_of_the_arrays() -> None:
    element = parsed(STEP | {"SLURM_ARRAY_JOB_ID": "70", "SLURM_ARRAY_TASK_ID": "3"})

    assert element.run_id() == "alps-70_3"
    assert element.run_id(pool=True) == "alps-70"
    assert parsed(STEP).run_id(pool=True) == "alps-71"


def test_an_element_of_an_array_is_addressed_by_array_and_index() -> None:
    assert parsed(STEP | {"SLURM_ARRAY_JOB_ID": "70", "SLURM_ARRAY_TASK_ID": "0"}).address == "70_0"
    assert parsed(STEP).address == "71"


@pytest.mark.parametrize("value", ["2(x4)", "1(x3),2", "2"])
def test_a_second_agent_on_a_node_is_refused_with_the_exact_fix(value: str) -> None:
    with pytest.raises(TooManyTasks, match="--ntasks-per-node=1") as caught:
        JobEnvironment.parse(STEP | {"SLURM_STEP_TASKS_PER_NODE": value})

    assert value in str(caught.value)
    assert caught.value.exit_code is ExitCode.USAGE


def test_the_batch_shell_refuses_more_tasks_per_node_as_well() -> None:
    with pytest.raises(TooManyTasks, match="SLURM_NTASKS_PER_NODE=2"):
        JobEnvironment.parse(BATCH | {"SLURM_NTASKS_PER_NODE": "2"})


def test_a_job_of_many_tasks_is_no_matter_where_the_agents_step_has_one_per_node() -> None:
    assert parsed(STEP | {"SLURM_NTASKS": "8", "SLURM_TASKS_PER_NODE": "2(x4)"}).tasks_per_node == 1


@pytest.mark.parametrize(
    ("value", "gpus"), [("", 0), ("4", 4), ("a100:4", 4), ("a100:2,v100:1", 3), ("many", 0), ("(null)", 0)]
)
def test_the_count_of_gpus_is_read_from_every_form_slurm_prints(value: str, gpus: int) -> None:
    assert parsed(STEP | {"SLURM_GPUS_ON_NODE": value}).gpus == gpus


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SLURM_RESTART_COUNT", "many"),
        ("SLURM_RESTART_COUNT", "-1"),
        ("SLURM_STEP_TASKS_PER_NODE", "1(x"),
        ("SLURM_STEP_NODELIST", "n[1-"),
        ("SLURMD_NODENAME", "other"),
    ],
)
def test_a_malformed_variable_is_named_with_its_value(name: str, value: str) -> None:
    with pytest.raises(BadEnvironment) as caught:
        JobEnvironment.parse(STEP | {name: value})

    assert value in str(caught.value)


def test_a_job_id_without_a_node_list_is_no_job() -> None:
    with pytest.raises(BadEnvironment, match="SLURM_JOB_NODELIST"):
        JobEnvironment.parse({"SLURM_JOB_ID": "71"})
