"""The loop of an agent, each of its rules: workers by script, rounds as given, time that leaps."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from hpc_elastic.agent import RunResult, SignalException, WorkerState
from hpc_elastic.errors import (
    RendezvousClosedError,
    RendezvousConnectionError,
    RendezvousGracefulExitError,
    RendezvousTimeoutError,
    WorkerStateError,
)
from hpc_elastic.rendezvous import RendezvousHandler, RendezvousParameters, create_handler
from tests.unit.agent.scripted import (
    HEALTHY,
    FixedRounds,
    ScriptedAgent,
    agent_of,
    failed,
    failure,
    spec_of,
    succeeded,
)

WELL = RunResult(HEALTHY)


@pytest.mark.parametrize("backend", ["fixed", "memory"])
def test_the_fake_rendezvous_keeps_the_contract_of_the_real_one(backend: str, tmp_path: object) -> None:
    handler: RendezvousHandler = FixedRounds()
    if backend == "memory":
        handler = create_handler(RendezvousParameters("memory", str(tmp_path), "run"))

    first = handler.next_rendezvous()
    first.store.set("key", "value")
    assert (first.rank, first.world_size, len(first.participants), first.wait_list) == (0, 1, 1, ())
    assert first.bootstrap_store_info is not None
    assert (handler.num_nodes_waiting(), handler.is_closed()) == (0, False)
    second = handler.next_rendezvous()
    assert second.round > first.round
    assert not second.store.check(["key"])
    handler.set_closed()
    assert handler.is_closed()
    with pytest.raises(RendezvousClosedError):
        handler.next_rendezvous()
    assert handler.shutdown() is True


def test_success_gives_the_values_by_global_rank_and_releases_all() -> None:
    handler = FixedRounds()
    agent = agent_of(handler, WELL, WELL, succeeded(_0="a", _1="b"))

    result = agent.run()

    assert (result.state, result.return_values) == (WorkerState.SUCCEEDED, {0: "a", 1: "b"})
    assert (agent.starts, agent.stops) == ([(0, [0, 1])], [])
    assert handler.story == ["rendezvous", "closed", "pre_shutdown", "shutdown"]


def test_workers_are_looked_at_once_in_each_interval() -> None:
    handler = FixedRounds()
    began_s = handler.clock.now_s

    agent_of(handler, *[WELL] * 9, succeeded(), monitor_interval=7.0).run()

    assert handler.clock.now_s - began_s == pytest.approx(70.0)


@pytest.mark.parametrize("state", [WorkerState.FAILED, WorkerState.UNHEALTHY])
def test_a_failure_restarts_all_workers_while_the_budget_lasts(state: WorkerState) -> None:
    handler = FixedRounds()
    bad = RunResult(state, failures={0: failure()})
    agent = agent_of(handler, bad, WELL, bad, succeeded(_0=1), max_restarts=2)

    result = agent.run()

    assert result.return_values == {0: 1}
    assert [count for count, _ in agent.starts] == [0, 1, 2]
    assert agent.stops == [True, True]


def test_a_failure_beyond_the_budget_ends_the_run_with_the_failures() -> None:
    handler = FixedRounds()
    agent = agent_of(handler, failed(1), max_restarts=2)

    result = agent.run()

    assert result.is_failed()
    assert result.failures == {1: failure(1)}
    assert len(agent.starts) == 3
    assert agent.stops == [True, True, False]
    assert handler.story[-3:] == ["closed", "pre_shutdown", "shutdown"]
    assert agent.get_worker_group().state is WorkerState.STOPPED or result.is_failed()


def test_without_a_budget_the_first_failure_is_the_last() -> None:
    agent = agent_of(FixedRounds(), failed(0), max_restarts=0)

    assert agent.run().is_failed()
    assert len(agent.starts) == 1


def test_nodes_that_wait_are_let_in_and_cost_no_restart() -> None:
    handler = FixedRounds()
    agent = agent_of(handler, WELL, WELL, succeeded(), max_restarts=0)
    handler.clock.then.append(lambda now_s: setattr(handler, "waiting", 1 if len(handler.rounds) == 1 else 0))

    assert agent.run().state is WorkerState.SUCCEEDED
    assert [count for count, _ in agent.starts] == [0, 0]
    assert agent.stops == [True]


@pytest.mark.parametrize("state", [WorkerState.UNKNOWN, WorkerState.INIT, WorkerState.STOPPED])
def test_any_other_state_is_an_error_that_names_it(state: WorkerState) -> None:
    handler = FixedRounds()
    agent = agent_of(handler, RunResult(state))

    with pytest.raises(WorkerStateError, match=state.value):
        agent.run()
    assert agent.stops == [False]
    assert handler.story[-1] == "shutdown"
    assert not handler.closed


def test_a_graceful_exit_of_the_rendezvous_is_a_success() -> None:
    handler = FixedRounds()
    handler.raises = RendezvousGracefulExitError("the last one leaves")

    assert agent_of(handler, WELL).run() == RunResult(WorkerState.SUCCEEDED)
    assert handler.story == ["rendezvous", "pre_shutdown", "shutdown"]


@pytest.mark.parametrize(
    "error", [RendezvousConnectionError("no"), RendezvousTimeoutError("no"), KeyError("no")]
)
def test_an_error_of_the_rendezvous_is_raised_and_closes_nothing(error: Exception) -> None:
    handler = FixedRounds()
    handler.raises = error

    with pytest.raises(type(error)):
        agent_of(handler, WELL).run()
    assert handler.story == ["rendezvous", "pre_shutdown", "shutdown"]


def test_workers_that_cannot_be_started_are_released_too() -> None:
    handler = FixedRounds()
    agent = agent_of(handler, WELL)
    agent.raises_at_start = OSError("too many processes")

    with pytest.raises(OSError, match="too many"):
        agent.run()
    assert agent.stops == [False]
    assert not handler.closed
    assert handler.story[-1] == "shutdown"


def test_a_death_signal_ends_the_workers_releases_all_and_is_raised_again() -> None:
    handler = FixedRounds()
    agent = agent_of(handler, WELL)
    handler.clock.then.append(lambda now_s: signal.raise_signal(signal.SIGTERM))
    before = signal.getsignal(signal.SIGTERM)

    with pytest.raises(SignalException, match="SIGTERM") as raised:
        agent.run()

    assert raised.value.sigval is signal.SIGTERM
    assert agent.stops == [False]
    assert handler.story == ["rendezvous", "pre_shutdown", "shutdown"]
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_signal_that_comes_while_workers_start_waits_until_they_are_known() -> None:
    handler = FixedRounds()

    class Signalled(ScriptedAgent):
        def _start_workers(self, worker_group: Any) -> dict[int, Any]:
            signal.raise_signal(signal.SIGINT)
            return super()._start_workers(worker_group)

    agent = Signalled(spec_of(handler), [WELL], handler.clock)

    with pytest.raises(SignalException, match="SIGINT"):
        agent.run()
    assert (len(agent.starts), agent.stops) == (1, [False])


def test_an_ignored_hangup_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        handler = FixedRounds()
        handler.clock.then.append(lambda now_s: signal.raise_signal(signal.SIGHUP))

        assert agent_of(handler, WELL, succeeded()).run().state is WorkerState.SUCCEEDED
    finally:
        signal.signal(signal.SIGHUP, before)
