"""What agents of one round agree on: ranks, counts of failures, and the end."""

from __future__ import annotations

import pytest

from hpc_elastic.agent import RunResult
from hpc_elastic.agent.board import Board, EndCause, Introduction, RoundEnd
from hpc_elastic.agent.simple import IDENTICAL_VARIABLE
from hpc_elastic.errors import (
    StoreTimedOut,
)
from hpc_elastic.stores.memory import MemoryStore
from tests.unit.agent.scripted import (
    HEALTHY,
    FixedRounds,
    agent_of,
    failed,
    failure,
    succeeded,
)

WELL = RunResult(HEALTHY)


def peer_of(
    handler: FixedRounds, introduction: Introduction, end: RoundEnd | None = None, *, finished: bool = False
) -> None:
    """Let rank 1 of two say who it is in each round, and what else it has to say in the first one."""

    def speak(store: MemoryStore) -> None:
        space = "hpc_elastic/agents/introductions"
        store.set(f"{space}/1", introduction.encode())
        if end is not None and len(handler.rounds) == 1:
            board(handler, store).end_round(end)
        if finished:
            board(handler, store).finish()

    handler.peers = speak


def board(handler: FixedRounds, store: MemoryStore) -> Board:
    return Board(store, 1, 2, handler.clock)


def test_ranks_are_consecutive_by_group_rank_and_by_role() -> None:
    handler = FixedRounds(rank=0, world_size=2)
    peer_of(handler, Introduction("reader", 3), finished=True)
    agent = agent_of(handler, succeeded(), role="trainer", local_world_size=2)

    agent.run()

    group = agent.get_worker_group()
    shown = [(w.global_rank, w.world_size, w.role_rank, w.role_world_size, w.id) for w in group.workers]
    assert shown == [(0, 5, 0, 2, "id0"), (1, 5, 1, 2, "id1")]
    assert [(member.role, member.slots) for member in group.members] == [("trainer", 2), ("reader", 3)]
    assert (group.group_rank, group.group_world_size) == (0, 2)
    assert (group.master_addr, group.master_port) == ("host0", 29500)


def test_a_fixed_master_stands_in_for_the_negotiated_one() -> None:
    agent = agent_of(FixedRounds(), succeeded(), master_addr="10.0.0.1", master_port=1234)

    agent.run()

    group = agent.get_worker_group()
    assert (group.master_addr, group.master_port) == ("10.0.0.1", 1234)


def test_ranks_meet_at_the_address_that_the_first_node_was_given() -> None:
    agent = agent_of(FixedRounds(), succeeded(), local_addr="10.0.0.7")

    agent.run()

    group = agent.get_worker_group()
    assert (group.master_addr, group.master_port) == ("10.0.0.7", 29500)


def test_the_address_of_another_node_than_the_first_is_not_where_ranks_meet() -> None:
    handler = FixedRounds(rank=0, world_size=2)
    peer_of(handler, Introduction("trainer", 2, address="10.0.0.8"), finished=True)
    agent = agent_of(handler, succeeded())

    agent.run()

    assert agent.get_worker_group().master_addr == "host0"


def test_nodes_said_to_be_identical_exchange_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(IDENTICAL_VARIABLE, "1")
    handler = FixedRounds(rank=1, world_size=3)
    agent = agent_of(handler, failed(2), max_restarts=0)

    agent.run()

    assert agent.starts == [(0, [2, 3])]
    assert {worker.world_size for worker in agent.get_worker_group().workers} == {6}
    assert not handler.rounds[0].check(["hpc_elastic/agents/introductions/1"])


def test_the_count_of_failures_is_that_of_the_node_that_knows_most() -> None:
    handler = FixedRounds(world_size=2)
    peer_of(handler, Introduction("trainer", 2, failures=3))
    agent = agent_of(handler, failed(0), max_restarts=3)

    assert agent.run().is_failed()
    assert [count for count, _ in agent.starts] == [3]


def test_a_failure_of_a_peer_restarts_these_workers_too_and_counts() -> None:
    handler = FixedRounds(world_size=2)
    peer_of(handler, Introduction("trainer", 2), RoundEnd(EndCause.FAILED, 1, failure(3)))
    agent = agent_of(handler, WELL, WELL, failed(0), max_restarts=1)

    result = agent.run()

    assert [count for count, _ in agent.starts] == [0, 1]
    assert list(result.failures) == [0]


def test_a_failure_of_a_peer_beyond_the_budget_is_the_root_cause_here_too() -> None:
    handler = FixedRounds(world_size=2)
    peer_of(handler, Introduction("trainer", 2), RoundEnd(EndCause.FAILED, 1, failure(3)))
    agent = agent_of(handler, failed(0), max_restarts=0)

    result = agent.run()

    assert list(result.failures) == [3, 0]
    assert result.failures[3].message == failure(3).message


def test_a_peer_without_a_restart_left_ends_the_run_by_its_own_policy() -> None:
    handler = FixedRounds(world_size=2)
    peer_of(handler, Introduction("trainer", 2), RoundEnd(EndCause.FAILED, 1, failure(3)))
    agent = agent_of(handler, WELL, max_restarts=5)
    handler.clock.then.append(lambda now_s: setattr(handler, "closed", True))

    result = agent.run()

    assert result.is_failed()
    assert list(result.failures) == [3]


def test_the_exit_waits_for_a_peer_that_runs_on_however_long() -> None:
    handler = FixedRounds(world_size=2)
    peer_of(handler, Introduction("trainer", 2))
    agent = agent_of(handler, succeeded(_0=1), times={"exit_barrier_timeout": 30})
    began_s = handler.clock.now_s
    peer: list[Board] = []

    def live(now_s: float) -> None:
        peer[:] = peer or [board(handler, handler.rounds[0])]
        peer[0].finish() if now_s > began_s + 400 else peer[0].beat()

    handler.clock.then.append(live)

    assert agent.run().return_values == {0: 1}
    assert 400 < handler.clock.now_s - began_s < 410
    assert handler.closed


def test_a_peer_that_stays_silent_does_not_undo_success() -> None:
    handler = FixedRounds(world_size=2)
    peer_of(handler, Introduction("trainer", 2))
    agent = agent_of(handler, succeeded(_0=1), times={"exit_barrier_timeout": 30})
    began_s = handler.clock.now_s

    assert agent.run().return_values == {0: 1}
    assert 30 <= handler.clock.now_s - began_s < 33
    assert not handler.closed


def test_a_store_that_fails_at_the_exit_does_not_undo_success() -> None:
    handler = FixedRounds(world_size=2)
    peer_of(handler, Introduction("trainer", 2))
    agent = agent_of(handler, succeeded(_0=1))

    def break_store(now_s: float) -> None:
        def fail(key: bytes) -> bytes | None:
            raise StoreTimedOut("gone")

        setattr(handler.rounds[0], "read", fail)  # noqa: B010 - an outage of this very store

    handler.clock.then.append(break_store)

    assert agent.run().return_values == {0: 1}


def test_a_finished_node_is_told_when_a_peer_fails_and_runs_again() -> None:
    handler = FixedRounds(world_size=2)
    peer_of(handler, Introduction("trainer", 2), finished=False)
    agent = agent_of(handler, succeeded(_0=1), succeeded(_0=2))

    def fail_then_finish(now_s: float) -> None:
        peer = board(handler, handler.rounds[-1])
        if len(handler.rounds) == 1:
            peer.end_round(RoundEnd(EndCause.FAILED, 1, failure(2)))
        else:
            peer.finish()

    handler.clock.then.append(fail_then_finish)

    assert agent.run().return_values == {0: 2}
    assert [count for count, _ in agent.starts] == [0, 1]
