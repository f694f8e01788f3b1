"""Who ends the job where the batch host is lost, and that nobody lingers where it is not."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from hpc_elastic.backends.memory import MemoryBackend
from hpc_elastic.rendezvous import keys
from hpc_elastic.rendezvous.codec import encode
from hpc_elastic.rendezvous.record import BatchBeat, NodeState, Outcome, Presence
from hpc_elastic.slurm.last_out import LastOut, stagger

NODES = ("n1", "n2", "n3")


@dataclass
class World:
    """A clock that beats for those that live whenever somebody sleeps. n1 is the batch host."""

    backend: MemoryBackend = field(default_factory=MemoryBackend)
    now_s: float = 0.0
    beats: int = 0
    is_batch_there: bool = False
    states: dict[str, NodeState] = field(default_factory=dict)
    lost: set[str] = field(default_factory=set)
    is_known: bool = True

    def monotonic_s(self) -> float:
        return self.now_s

    def utc_now(self) -> str:
        return "now"

    def sleep_s(self, seconds: float) -> None:
        self.now_s += seconds
        self.say()

    def say(self) -> None:
        self.beats = int(self.now_s // 5.0)
        if self.is_known and (self.is_batch_there or self.backend.read(keys.batch_key(1)) is None):
            self.backend.overwrite(keys.batch_key(1), encode(BatchBeat(1, self.beats, "w")))
        for order, (name, state) in enumerate(self.states.items()):
            key = keys.node_key(f"1-{name}-x")
            if name in self.lost and self.backend.read(key) is not None:
                continue
            outcome = Outcome.SAVED if state is NodeState.LEFT else None
            said = Presence(f"1-{name}-x", 1, name, order, name, name, 0, 1, "default", state, 1, self.beats)
            self.backend.overwrite(key, encode(replace(said, outcome=outcome)))

    def place(self, name: str = "n3", members: tuple[str, ...] = NODES) -> int | None:
        self.say()
        return LastOut(
            self.backend, self.backend, 1, name, "n1", members, heartbeat_s=5.0, clock=self
        ).place()


RUNS, LEFT = NodeState.CONFIRMED, NodeState.LEFT


def test_where_the_agent_of_the_batch_host_has_left_nobody_waits() -> None:
    world = World(states=dict.fromkeys(NODES, LEFT), is_batch_there=True)

    assert world.place() is None
    assert world.now_s == 0.0


def test_where_it_still_runs_a_beat_is_enough() -> None:
    world = World(states={"n1": RUNS, "n2": LEFT, "n3": LEFT}, is_batch_there=True)

    assert world.place() is None
    assert world.now_s < 10.0


def test_an_agent_lost_without_its_host_is_not_the_loss_of_the_batch_side() -> None:
    world = World(states={"n1": RUNS, "n2": LEFT, "n3": LEFT}, lost={"n1"}, is_batch_there=True)

    assert world.place() is None


def test_a_batch_side_that_was_never_there_has_no_duty_to_hand_on() -> None:
    assert World(states={"n1": RUNS, "n3": LEFT}, lost={"n1"}, is_known=False).place() is None


@pytest.mark.parametrize("members", [NODES, ("n2", "n3")])
def test_after_the_loss_of_the_batch_host_all_that_left_have_a_place(members: tuple[str, ...]) -> None:
    for name, place in (("n2", 0), ("n3", 1)):
        world = World(states={"n1": RUNS, "n2": LEFT, "n3": LEFT}, lost={"n1"})

        assert world.place(name, members) == place
        assert world.now_s > 15.0


def test_whoever_is_not_the_last_leaves_it_to_those_that_go_on() -> None:
    world = World(states={"n1": RUNS, "n2": RUNS, "n3": LEFT}, lost={"n1"})

    assert world.place() is None


def test_the_first_acts_at_once_and_the_others_when_nothing_has_happened() -> None:
    asked: list[float] = []

    assert stagger(0, lambda within_s: bool(asked.append(within_s)))  # type: ignore[func-returns-value]
    assert asked == []
    assert stagger(2, lambda within_s: within_s > 2.0)
    assert not stagger(2, lambda within_s: within_s == 2.0)
