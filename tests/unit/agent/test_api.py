"""The public names of the agent: what is there, by which defaults, and what is refused."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from hpc_elastic import agent
from hpc_elastic.agent import (
    DEFAULT_ROLE,
    ChildFailedError,
    ElasticAgent,
    LocalElasticAgent,
    LogsSpecs,
    MonitorResult,
    RunResult,
    SignalException,
    SimpleElasticAgent,
    Std,
    Worker,
    WorkerGroup,
    WorkerGroupFailureException,
    WorkerSpec,
    WorkerState,
    return_values,
)
from hpc_elastic.errors import BadWorkerSpec, HpcElasticError
from hpc_elastic.workers import payload
from hpc_elastic.workers.failures import ProcessFailure
from hpc_elastic.workers.streams import Console, Streams
from tests.unit.agent.scripted import FixedRounds, failed, failure, spec_of, succeeded

DEFAULTS = {
    "fn": None,
    "entrypoint": None,
    "args": (),
    "max_restarts": 3,
    "monitor_interval": 0.1,
    "master_addr": None,
    "master_port": None,
    "local_addr": None,
    "event_log_handler": "null",
    "logs_specs": None,
    "log_dir": None,
    "redirects": None,
    "tee": None,
    "duplicate_stdout_filters": None,
    "duplicate_stderr_filters": None,
    "start_method": "spawn",
    "virtual_local_rank": False,
    "numa_options": None,
}


def train(x: int) -> int:
    return x


def test_every_public_name_loads_and_an_unknown_one_does_not() -> None:
    for name in agent.__all__:
        assert getattr(agent, name) is not None
    assert dir(agent) == sorted(agent.__all__)
    assert DEFAULT_ROLE == "default"
    with pytest.raises(AttributeError, match="no_such_name"):
        agent.no_such_name  # noqa: B018


def test_a_spec_has_the_fields_and_defaults_of_the_contract() -> None:
    fields = {field.name: field.default for field in dataclasses.fields(WorkerSpec)}

    assert {name: value for name, value in fields.items() if value is not dataclasses.MISSING} == DEFAULTS
    assert [name for name, value in fields.items() if value is dataclasses.MISSING] == [
        "role",
        "local_world_size",
        "rdzv_handler",
    ]


@pytest.mark.parametrize(
    ("field", "value", "allowed"),
    [
        ("role", "", "a name"),
        ("role", "a\0b", "a name"),
        ("local_world_size", 0, "above 0"),
        ("local_world_size", True, "above 0"),
        ("local_world_size", 10**9, "up to 4096"),
        ("rdzv_handler", None, "a RendezvousHandler"),
        ("entrypoint", None, "a callable, or a command"),
        ("entrypoint", "", "a callable, or a command"),
        ("max_restarts", -1, "from 0 on"),
        ("monitor_interval", 0, "above 0"),
        ("monitor_interval", float("nan"), "above 0"),
        ("monitor_interval", 1e30, "below 1e.09"),
        ("master_addr", "", "one host name"),
        ("master_addr", 7, "one host name"),
        ("local_addr", "a b", "one host name"),
        ("master_port", 65536, "1 to 65535"),
        ("event_log_handler", "", "an event sink"),
        ("start_method", "fork", "'spawn'"),
        ("redirects", "4", "0 .none."),
        ("tee", {0: 7}, "0 .none."),
        ("tee", float("inf"), "0 .none."),
        ("logs_specs", "3", "LogsSpecs"),
        ("log_dir", "", "a directory's path"),
        ("log_dir", 7, "a directory's path"),
        ("virtual_local_rank", "no", "True or False"),
        ("duplicate_stdout_filters", "loss", "a list of texts"),
        ("duplicate_stdout_filters", 7, "a list of texts"),
        ("duplicate_stderr_filters", ["loss", ""], "a list of texts"),
        ("numa_options", "node", "'exclusive'"),
        ("args", (object(),), "texts and numbers"),
        ("args", "--lr 1", "a tuple or a list"),
        ("args", 7, "a tuple or a list"),
        ("args", None, "a tuple or a list"),
        ("args", ("a\0b",), "texts and numbers"),
    ],
)
def test_a_bad_value_is_refused_with_its_field_its_value_and_what_is_allowed(
    field: str, value: Any, allowed: str
) -> None:
    given: dict[str, Any] = {
        "role": "trainer",
        "local_world_size": 1,
        "rdzv_handler": FixedRounds(),
        "entrypoint": "train.py",
    }
    with pytest.raises(BadWorkerSpec, match=allowed) as refused:
        WorkerSpec(**{**given, field: value})

    assert str(refused.value).startswith(f"WorkerSpec.{field}")
    assert repr(value) in str(refused.value)
    assert isinstance(refused.value, ValueError)


@pytest.mark.parametrize("given", [7, ["a"], "x"])
def test_a_filter_of_ranks_that_names_none_is_refused(given: Any) -> None:
    with pytest.raises(BadWorkerSpec, match="local_ranks_filter"):
        spec_of(FixedRounds(), logs_specs=LogsSpecs(local_ranks_filter=given))


def test_the_logs_are_given_in_one_way_only() -> None:
    with pytest.raises(BadWorkerSpec, match="one or the other"):
        spec_of(FixedRounds(), logs_specs=LogsSpecs(), tee="3")


def test_the_name_of_an_entrypoint_is_the_base_name_or_the_qualified_name() -> None:
    assert spec_of(FixedRounds(), entrypoint="/usr/bin/python3").get_entrypoint_name() == "python3"
    assert spec_of(FixedRounds(), entrypoint=train).get_entrypoint_name() == "train"


def test_fn_is_an_old_name_of_entrypoint() -> None:
    with pytest.warns(DeprecationWarning, match="entrypoint") as warned:
        spec = WorkerSpec("trainer", 1, FixedRounds(), fn=train)

    assert spec.entrypoint is train
    assert warned[0].filename == __file__


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("3", Streams(everybody=Std.ALL)),
        (Std.OUT, Streams(everybody=Std.OUT)),
        ("0:1,1:2", Streams(by_rank={0: Std.OUT, 1: Std.ERR})),
        ({0: Std.OUT, 1: 2}, Streams(by_rank={0: Std.OUT, 1: Std.ERR})),
    ],
)
def test_streams_are_taken_in_all_forms_that_torchrun_has(given: Any, meant: Streams) -> None:
    assert LogsSpecs(tee=given).console() == Console(tee=meant)
    assert LogsSpecs(redirects=given, local_ranks_filter="0-1").console() == Console(
        redirects=meant, local_ranks=frozenset({0, 1})
    )


def test_a_worker_has_no_rank_until_it_is_assigned_and_can_be_read() -> None:
    worker = Worker(1)

    assert (worker.id, worker.local_rank, worker.global_rank, worker.role_rank) == (None, 1, -1, -1)
    assert (worker.world_size, worker.role_world_size) == (-1, -1)
    assert str(worker) == "worker (not started): local rank 1, rank -1 of -1, role rank -1 of -1"


def test_two_of_the_states_are_running_ones() -> None:
    assert [state.value for state in WorkerState] == [
        "UNKNOWN",
        "INIT",
        "HEALTHY",
        "UNHEALTHY",
        "STOPPED",
        "SUCCEEDED",
        "FAILED",
    ]
    running = [state for state in WorkerState if WorkerState.is_running(state)]
    assert running == [WorkerState.HEALTHY, WorkerState.UNHEALTHY]


def test_a_new_group_has_its_workers_and_no_round() -> None:
    group = WorkerGroup(spec_of(FixedRounds()))

    assert [worker.local_rank for worker in group.workers] == [0, 1]
    assert (group.store, group.group_rank, group.group_world_size) == (None, None, None)
    assert (group.master_addr, group.master_port, group.state) == (None, None, WorkerState.INIT)


def test_a_result_is_failed_in_one_state_only() -> None:
    assert [state for state in WorkerState if RunResult(state).is_failed()] == [WorkerState.FAILED]
    empty = RunResult(WorkerState.HEALTHY)
    assert (empty.return_values, empty.failures, empty.stdouts, empty.stderrs) == ({}, {}, {}, {})


def test_values_or_an_exception_as_older_agents_gave_them(tmp_path: Path) -> None:
    error_file = tmp_path / "1.json"
    payload.write(tmp_path / "1.pkl", payload.pack_value(KeyError("batch")))
    told = ProcessFailure(0, 1, 1, str(error_file), "KeyError: 'batch'", 0, global_rank=1)
    both = RunResult(WorkerState.FAILED, failures={1: told, 3: failure(3)})

    assert return_values(succeeded(_0="a", _1="b")) == {0: "a", 1: "b"}
    with pytest.raises(WorkerGroupFailureException, match=r"ranks 1, 3 failed: KeyError: 'batch'") as raised:
        return_values(both)
    excs = raised.value.get_worker_exceptions()
    assert [type(each) for each in excs.values()] == [KeyError, HpcElasticError]
    assert str(excs[3]) == "exited with status 3"


def test_an_older_agents_view_of_a_result_has_values_or_exceptions() -> None:
    good, bad = MonitorResult.of(succeeded(_0=1)), MonitorResult.of(failed(0))

    assert (good.state, good.ret_vals, good.exceptions) == (WorkerState.SUCCEEDED, {0: 1}, None)
    assert (bad.state, bad.ret_vals, list(bad.exceptions or {})) == (WorkerState.FAILED, None, [0])


def test_a_child_failure_names_the_first_one_as_the_root_cause() -> None:
    error = ChildFailedError("train.py", {5: failure(5, "ValueError: x"), 2: failure(2)})

    assert error.get_first_failure() == (5, failure(5, "ValueError: x"))
    assert str(error).splitlines() == [
        "train.py: rank 5 (local rank 0, pid 4711) on n5 failed first: ValueError: x",
        "its error file is /errors/5.json",
        "ranks that failed after it: 2 (exited with status 3)",
    ]
    with pytest.raises(ValueError, match="at least one"):
        ChildFailedError("train.py", {})


def test_the_agents_have_the_constructors_of_the_contract() -> None:
    spec = spec_of(FixedRounds())

    local = LocalElasticAgent(spec)

    assert (local._exit_barrier_timeout, local._shutdown_timeout) == (300, 30)
    assert local.get_worker_group().spec is spec
    assert issubclass(LocalElasticAgent, SimpleElasticAgent)
    assert issubclass(SimpleElasticAgent, ElasticAgent)
    for hook in ("_start_workers", "_stop_workers", "_monitor_workers"):
        assert hook in SimpleElasticAgent.__abstractmethods__
    assert ElasticAgent.__abstractmethods__ == {"run", "get_worker_group"}
    assert issubclass(SignalException, HpcElasticError)


@pytest.mark.parametrize("name", ["exit_barrier_timeout", "shutdown_timeout"])
@pytest.mark.parametrize("given", [-1, float("nan"), float("inf"), "30", None])
def test_a_time_that_is_none_is_refused_by_its_name(name: str, given: Any) -> None:
    with pytest.raises(BadWorkerSpec, match=f"^{name}={given!r}: expected seconds"):
        LocalElasticAgent(spec_of(FixedRounds()), **{name: given})
