"""When the batch side takes its agents for gone: never before the last that lives has left."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import pytest

from hpc_elastic.backends.base import Backend
from hpc_elastic.backends.memory import MemoryBackend
from hpc_elastic.errors import BackendUnavailable
from hpc_elastic.rendezvous import keys
from hpc_elastic.rendezvous.codec import decode_as, encode
from hpc_elastic.rendezvous.record import (
    Attempt,
    BackendChoice,
    BatchBeat,
    Cause,
    Closed,
    Member,
    NodeState,
    Notice,
    Outcome,
    Presence,
    Reason,
    Round,
    Scope,
    Settled,
)
from hpc_elastic.rendezvous.standing import JobStart
from hpc_elastic.slurm.batch_watch import UNSEEN_S, BatchWatch
from hpc_elastic.slurm.walltime import Front

HEARTBEAT_S = 5.0
LIVENESS_S = 15.0
NODES = ("n1", "n2", "n3")
START = JobStart("c", "7", nodes=NODES)


class World:
    """The record of one attempt, and a watch over it that turns once in a heartbeat."""

    def __init__(self) -> None:
        self.backend: Backend = MemoryBackend()
        self.now_s = 100.0
        self.presences: dict[str, Presence] = {}
        self.beating: set[str] = set()
        self.is_out_of_reach = False
        self.watch = BatchWatch(self.backend, self.meet, START, heartbeat_s=HEARTBEAT_S, store_lost_s=300.0)

    def meet(self) -> Backend:
        return cast(Backend, _Flaky(self))

    def open(self) -> None:
        attempt = Attempt(1, "c", "7", "", 0, "", NODES, "w")
        self.backend.create(keys.attempt_key(1), encode(attempt))
        choice = BackendChoice(1, "file", "", "", "", "", "", "w")
        self.backend.create(keys.backend_key(1), encode(choice))

    def come(self, *names: str) -> None:
        for name in names:
            node = f"1-{name}-x"
            self.presences[name] = Presence(
                node, 1, name, 0, name, name, 0, 1, "default", NodeState.CONFIRMED, 1, 1
            )
            self._write(name)
        self.beating.update(names)

    def leave(self, *names: str, outcome: Outcome = Outcome.DONE) -> None:
        for name in names:
            self.presences[name] = replace(self.presences[name], state=NodeState.LEFT, outcome=outcome)
            self._write(name)
        self.beating.difference_update(names)

    def close(self) -> None:
        self.backend.create(keys.round_key(2), encode(Closed(2, 1, True, 1, 0, "", "", "w")))

    def _write(self, name: str) -> None:
        presence = self.presences[name] = replace(self.presences[name], beat=self.presences[name].beat + 1)
        self.backend.overwrite(keys.node_key(presence.node), encode(presence))

    def turn(self) -> bool:
        self.now_s += HEARTBEAT_S
        for name in self.beating:
            self._write(name)
        return self.watch.turn(self.now_s)

    def over_after_s(self, within_s: float) -> float | None:
        began_s = self.now_s
        while self.now_s - began_s < within_s:
            if self.turn():
                return self.now_s - began_s
        return None


class _Flaky:
    def __init__(self, world: World) -> None:
        self._world = world

    def __getattr__(self, name: str) -> object:
        if self._world.is_out_of_reach:
            raise BackendUnavailable("out of reach")
        return getattr(self._world.backend, name)


@pytest.fixture
def world() -> World:
    world = World()
    world.open()
    return world


def test_nothing_is_over_before_an_agent_has_come() -> None:
    world = World()
    assert world.over_after_s(600.0) is None
    world.open()
    assert world.over_after_s(600.0) is None


def test_agents_that_beat_are_never_taken_for_gone_however_many_have_left(world: World) -> None:
    world.come(*NODES)
    assert world.over_after_s(600.0) is None

    world.leave("n1", "n2")

    assert world.over_after_s(600.0) is None


def test_when_all_have_left_it_is_over_at_the_next_look(world: World) -> None:
    world.come(*NODES)
    world.turn()
    world.leave(*NODES)

    assert world.over_after_s(60.0) == HEARTBEAT_S


def test_a_lost_agent_is_not_waited_for_when_the_others_have_left(world: World) -> None:
    world.come(*NODES)
    world.turn()
    world.beating.discard("n2")
    assert world.over_after_s(60.0) is None, "two beat"

    world.leave("n1", "n3", outcome=Outcome.SAVED)

    assert world.over_after_s(60.0) == HEARTBEAT_S, "its silence had been watched before"


def test_an_agent_that_is_lost_at_the_end_is_given_the_liveness_time(world: World) -> None:
    world.come(*NODES)
    world.turn()
    world.beating.discard("n2")
    world.leave("n1", "n3", outcome=Outcome.SAVED)

    over_s = world.over_after_s(120.0)

    assert over_s is not None
    assert over_s > LIVENESS_S


def test_while_the_record_is_out_of_reach_nobody_is_silent(world: World) -> None:
    world.come(*NODES)
    world.turn()
    world.leave("n1")
    world.is_out_of_reach = True
    assert world.over_after_s(600.0) is None
    world.is_out_of_reach = False

    assert world.over_after_s(600.0) is None


def test_where_none_has_said_goodbye_they_are_given_the_time_of_a_lost_record(world: World) -> None:
    world.come(*NODES)
    world.turn()
    world.beating.clear()

    over_s = world.over_after_s(600.0)

    assert over_s is not None
    assert over_s > 300.0


def test_an_agent_that_still_loads_is_waited_for_unless_the_run_is_done(world: World) -> None:
    world.come("n1", "n2")
    world.turn()
    world.leave("n1", "n2")
    assert world.over_after_s(UNSEEN_S - HEARTBEAT_S) is None

    world.close()

    assert world.over_after_s(60.0) == HEARTBEAT_S


def test_it_beats_as_long_as_it_watches(world: World) -> None:
    world.come(*NODES)
    beats = []
    for _ in range(3):
        world.turn()
        raw = world.backend.read(keys.batch_key(1))
        assert raw is not None
        beats.append(decode_as(raw, BatchBeat, key=keys.batch_key(1)).beat)

    assert beats == [1, 2, 3]


def test_in_steady_state_one_presence_is_read_in_a_heartbeat(world: World) -> None:
    world.come(*NODES)
    world.turn()
    read: list[str] = []
    real = world.backend.read
    world.backend.read = lambda key: (read.append(key), real(key))[1]  # type: ignore[method-assign, func-returns-value]

    for _ in range(5):
        world.turn()

    assert len(read) == 5


def test_a_notice_of_the_batch_side_is_on_record_once_its_agents_meet_and_never_replaces_theirs() -> None:
    world = World()
    world.turn()
    assert not world.watch.give_notice(Reason.TIME_LIMIT, 50.0, "now"), "nobody has come yet"
    world.open()
    world.come(*NODES)
    world.turn()

    assert world.watch.give_notice(Reason.TIME_LIMIT, 50.0, "now")
    assert world.watch.give_notice(Reason.PREEMPTED, 5.0, "now")

    raw = world.backend.read(keys.notice_key(1))
    assert raw is not None
    stands = decode_as(raw, Notice, key=keys.notice_key(1))
    assert (stands.reason, stands.scope, stands.seconds_left) == (Reason.TIME_LIMIT, Scope.RUN, 50.0)


def test_the_newest_round_of_its_own_attempt_is_told_with_whether_it_is_settled(world: World) -> None:
    backend = world.backend
    assert world.watch.front() is None, "nothing was read so far"
    world.come(*NODES)
    world.turn()
    assert world.watch.front() is None, "no round yet"

    backend.create(keys.round_key(1), encode(a_round(1, attempt=0)))
    assert world.watch.front() is None, "a round of the start before"
    backend.create(keys.round_key(2), encode(a_round(2, attempt=1)))
    assert world.watch.front() == Front(2, is_settled=False)
    settled = Settled(2, Cause.WORKER_FAILED, "1-n1-x", "", "now", "w")
    backend.create(keys.settled_key(2), encode(settled))
    assert world.watch.front() == Front(2, is_settled=True)
    world.is_out_of_reach = True
    assert world.watch.front() is None
    world.is_out_of_reach = False

    backend.create(keys.round_key(3), encode(Closed(3, 1, False, 2, 1, "", "now", "w")))
    assert world.watch.front() is None, "the run is closed"


def a_round(number: int, *, attempt: int) -> Round:
    member = Member("1-n1-x", "n1", 1, "default", "n1")
    return Round(number, (attempt,), (member,), "n1", 1, "", 0, 0, "now", "w")
