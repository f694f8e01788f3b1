"""The public names of the agent as the contract lists them: signatures, members and defaults."""

from __future__ import annotations

import inspect
from typing import Any, Final

import pytest

from hpc_elastic import agent
from hpc_elastic.agent import (
    ElasticAgent,
    LocalElasticAgent,
    MonitorResult,
    ProcessFailure,
    RunResult,
    SimpleElasticAgent,
    Worker,
    WorkerGroup,
    WorkerState,
)
from tests.unit.agent.scripted import FixedRounds, agent_of, spec_of, succeeded

NAMES: Final = {
    "DEFAULT_ROLE",
    "ChildFailedError",
    "ElasticAgent",
    "LocalElasticAgent",
    "MonitorResult",
    "ProcessFailure",
    "RunResult",
    "SignalException",
    "SimpleElasticAgent",
    "Worker",
    "WorkerGroup",
    "WorkerGroupFailureException",
    "WorkerSpec",
    "WorkerState",
    "record",
}
SIGNATURES: Final[dict[Any, dict[str, Any]]] = {
    ElasticAgent.run: {"role": "default"},
    ElasticAgent.get_worker_group: {"role": "default"},
    SimpleElasticAgent: {"exit_barrier_timeout": 300.0, "shutdown_timeout": 30.0},
    LocalElasticAgent: {"exit_barrier_timeout": 300.0, "shutdown_timeout": 30.0},
    SimpleElasticAgent._stop_workers: {"is_restart": False},
    Worker: {"global_rank": -1, "role_rank": -1, "world_size": -1, "role_world_size": -1},
    MonitorResult: {"ret_vals": None, "exceptions": None},
}
HOOKS: Final = ("_start_workers", "_stop_workers", "_monitor_workers")


def test_every_name_of_the_contract_is_public() -> None:
    assert set(agent.__all__) >= NAMES


@pytest.mark.parametrize("callee", SIGNATURES, ids=lambda callee: callee.__qualname__)
def test_parameters_have_the_defaults_of_the_contract(callee: Any) -> None:
    if callee is MonitorResult:
        found = {"ret_vals": MonitorResult.ret_vals, "exceptions": MonitorResult.exceptions}
    else:
        found = {name: one.default for name, one in inspect.signature(callee).parameters.items()}

    assert SIGNATURES[callee].items() <= found.items()


def test_a_subclass_has_to_supply_three_hooks() -> None:
    assert frozenset(HOOKS) == SimpleElasticAgent.__abstractmethods__
    assert not LocalElasticAgent.__abstractmethods__


def test_the_states_are_those_of_the_contract_and_are_texts() -> None:
    wanted = ("UNKNOWN", "INIT", "HEALTHY", "UNHEALTHY", "STOPPED", "SUCCEEDED", "FAILED")

    assert tuple(state.value for state in WorkerState) == wanted
    assert {state for state in WorkerState if WorkerState.is_running(state)} == {
        WorkerState.HEALTHY,
        WorkerState.UNHEALTHY,
    }


def test_a_group_and_a_result_have_the_fields_of_the_contract() -> None:
    group = WorkerGroup(spec_of(FixedRounds()))

    for name in ("spec", "workers", "store", "group_rank", "group_world_size", "master_addr", "master_port"):
        assert hasattr(group, name)
    assert group.state is WorkerState.INIT
    result = RunResult(WorkerState.HEALTHY)
    assert (result.return_values, result.failures, result.stdouts, result.stderrs) == ({}, {}, {}, {})


def test_a_failure_tells_what_the_contract_says() -> None:
    told = ProcessFailure(0, 7, -11, "/e.json", "killed", 1, {"message": "killed"})

    assert (told.local_rank, told.pid, told.exitcode, told.timestamp) == (0, 7, -11, 1)
    assert (told.signal_name(), told.message, told.error_file_data) == (
        "SIGSEGV",
        "killed",
        {"message": "killed"},
    )


def test_events_of_outcomes_and_phases_are_named_by_their_state() -> None:
    made = agent_of(FixedRounds(), succeeded(_0=1))

    assert made.get_event_succeeded().name == "hpc_elastic.worker.status.SUCCEEDED"
    assert made.get_event_failed().name == "hpc_elastic.worker.status.FAILED"
    with made.record_duration("PHASE"):
        pass
