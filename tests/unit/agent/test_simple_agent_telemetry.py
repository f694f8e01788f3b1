"""What an agent tells machines: events and metrics, and none of their faults."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hpc_elastic import events, metrics
from hpc_elastic.agent import RunResult, WorkerState
from hpc_elastic.events import Event, EventSource
from hpc_elastic.metrics import MetricData, MetricHandler
from tests.unit.agent.scripted import (
    HEALTHY,
    FixedRounds,
    LeapingClock,
    ScriptedAgent,
    agent_of,
    failed,
    failure,
    spec_of,
    succeeded,
)

WELL = RunResult(HEALTHY)


class Kept(MetricHandler):
    """Keeps what it is given."""

    def __init__(self) -> None:
        self.seen: dict[str, float] = {}

    def emit(self, metric_data: MetricData) -> None:
        self.seen[metric_data.name] = metric_data.value


@pytest.mark.parametrize(
    ("script", "budget", "outcome", "flakiness"),
    [
        ([succeeded()], 3, "run_success_no_retries", 0.0),
        ([failed(), succeeded()], 3, "run_success_with_retries", 25.0),
        ([failed()], 0, "run_failed_no_retries", 100.0),
        ([failed()], 1, "run_failed_with_retries", 100.0),
    ],
)
def test_a_run_leaves_its_metrics(script: Any, budget: int, outcome: str, flakiness: float) -> None:
    kept = Kept()
    metrics.configure(kept, metrics.GROUP)
    agent_of(FixedRounds(), *script, max_restarts=budget).run()
    metrics.configure(metrics.NullMetricHandler(), metrics.GROUP)

    outcomes = {name: value for name, value in kept.seen.items() if "_retries" in name}
    assert {name for name, value in outcomes.items() if value} == {f"workers.trainer.{outcome}"}
    assert len(outcomes) == 4
    assert kept.seen["workers.trainer.run_total"] == 1
    assert kept.seen["workers.trainer.flakiness"] == flakiness
    assert "workers.trainer.remaining_restarts" in kept.seen
    phases = {"_rendezvous", "_assign_worker_ranks", "_initialize_workers"}
    assert {f"SimpleElasticAgent.{phase}.duration.ms" for phase in phases} <= set(kept.seen)


class Listed:
    """An event sink that keeps its events, or fails."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.fails = False

    def write(self, event: Event) -> None:
        if self.fails:
            raise OSError("disk full")
        self.events.append(event)

    def close(self) -> None:
        self.events.append(Event("closed", EventSource.AGENT))


def listed(name: str) -> Listed:
    sink = Listed()
    events.register_sink(name, lambda _: sink)
    return sink


def test_each_state_of_a_worker_and_the_outcome_are_events() -> None:
    sink = listed("of a failure")
    script = (RunResult(WorkerState.FAILED, failures={1: failure(1)}), succeeded())

    agent_of(FixedRounds(), *script, event_log_handler="of a failure").run()

    states = [(e.source.value, e.metadata["state"], e.metadata.get("global_rank")) for e in sink.events[:-1]]
    of_workers = [entry[1:] for entry in states if entry[0] == "WORKER"]
    assert of_workers == [
        *[("STARTING", 0), ("STARTING", 1), ("HEALTHY", 0), ("HEALTHY", 1)],
        *[("TERMINATED", 0), ("FAILED", 1)],
        *[("STARTING", 0), ("STARTING", 1), ("HEALTHY", 0), ("HEALTHY", 1)],
        *[("SUCCEEDED", 0), ("SUCCEEDED", 1)],
    ]
    assert states[-1] == ("AGENT", "SUCCEEDED", None)
    bad = next(e for e in sink.events if e.metadata.get("state") == "FAILED")
    assert (bad.metadata["exit_code"], bad.metadata["worker_pid"]) == (3, 4711)
    assert bad.metadata["raw_error"] == "exited with status 3"
    assert sink.events[-1].name == "closed"


def test_an_event_has_the_fields_of_the_contract() -> None:
    handler = FixedRounds()
    agent = agent_of(handler, succeeded())
    agent.run()
    worker = agent.get_worker_group().workers[1]

    event = agent._telemetry.of_worker("HEALTHY", worker)
    told = json.loads(event.serialize())

    assert told["name"] == "hpc_elastic.worker.status.HEALTHY"
    assert told["source"] == "WORKER"
    wanted = {
        *("run_id", "entry_point", "global_rank", "group_rank", "local_rank", "role_rank"),
        *("group_world_size", "role_world_size", "role", "worker_id", "hostname", "state"),
        *("total_run_time", "rdzv_backend", "raw_error", "agent_restarts", "duration_ms"),
    }
    assert wanted <= set(told["metadata"])
    assert (told["metadata"]["run_id"], told["metadata"]["rdzv_backend"]) == ("run", "fixed")
    assert agent.get_event_succeeded().metadata["state"] == "SUCCEEDED"
    assert agent.get_event_failed().metadata["state"] == "FAILED"
    assert Event.deserialize(event.serialize()) == event


def test_a_sink_that_fails_harms_nobody() -> None:
    sink = listed("full")
    sink.fails = True

    assert agent_of(FixedRounds(), succeeded(), event_log_handler="full").run().state is WorkerState.SUCCEEDED
    unknown = agent_of(FixedRounds(), succeeded(), event_log_handler="no such sink")
    assert unknown.run().state is WorkerState.SUCCEEDED


def test_a_named_phase_is_told_with_how_long_it_took() -> None:
    sink = listed("of phases")
    clock = LeapingClock()
    agent = ScriptedAgent(spec_of(FixedRounds(clock=clock), event_log_handler="of phases"), [WELL], clock)

    with agent.record_duration("LOADING"):
        clock.now_s += 2

    assert sink.events[0].name == "hpc_elastic.worker.status.LOADING"
    assert sink.events[0].metadata["duration_ms"] == 2000
