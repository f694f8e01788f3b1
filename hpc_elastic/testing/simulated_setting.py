"""What one simulated run is like, drawn from its seed: rules, faults, habits."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from hpc_elastic.rendezvous.standing import Settings
from hpc_elastic.values import replace

# What may befall the place where the record lies, for a while. Those of an etcd hit its live part.
FILE_SPELLS = ("slow_disk", "disk_full", "stale_handle")
ETCD_SPELLS = ("slow_disk", "disk_full", "lease_lost", "etcd_compacted", "etcd_leader_change")


@dataclass(frozen=True)
class Faults:
    """How often each named fault happens: a chance per operation, or every so many seconds (0: never).

    `duplicate`: an overwrite arrives a second time, up to two seconds later. `names_cached_s`: a
    client remembers for so long that a name was missing. Spells come every `spell_every_s`.
    """

    lost_request: float = 0.0
    lost_reply: float = 0.0
    duplicate: float = 0.0
    stale_read: float = 0.0
    stale_s: float = 2.0
    names_cached_s: float = 0.0
    pause_every_s: float = 0.0
    pause_s: float = 40.0
    crash_every_s: float = 0.0
    crash_for_good: float = 0.3
    spells: tuple[str, ...] = ()
    spell_every_s: float = 0.0

    @property
    def hides_news_for_s(self) -> float:
        """How much later than announced a record may be seen: a stale look may be remembered."""
        return self.stale_s + self.names_cached_s if self.stale_read else 0.0


@dataclass(frozen=True)
class Habits:
    """How simulated agents and their workers behave; durations in seconds."""

    work_s: float = 20.0
    stop_s: float = 1.0
    save_s: float = 2.0
    steps_per_s: float = 10.0  # how fast the steps count that are reported in a drain
    failure: float = 0.0  # chance that a round of work ends in a failure
    infection: float = 0.8  # chance that the workers of others fail because of it
    closing: float = 0.0  # chance that an agent closes the run because of a failure


@dataclass(frozen=True)
class Setting:
    """One simulated run. `has_live_part`: it meets in an etcd, and the directory is the ledger."""

    nodes: int
    settings: Settings
    names: tuple[str, ...] = ()  # of the nodes; without it they are n0, n1, ...
    guests: int = 0  # jobs of one node each that join the run from outside, behind the nodes of its own job
    faults: Faults = Faults()
    habits: Habits = Habits()
    has_live_part: bool = False
    is_told: bool = False  # waiting agents are woken by changes, as a watch does
    hurry_s: float = 0.05  # no agent looks again earlier than this
    operation_s: float = 0.01  # an operation takes up to so long
    starts_within_s: float = 3.0  # the agents of an attempt start within so long
    trouble_s: float = 100.0
    notices: float = 0.0  # chance of a notice in an attempt
    all_at_once: float = 0.0  # chance that a notice to an element of a pool goes to all of them
    requeues: float = 0.0  # chance that an attempt is started again without a warning
    zombies: float = 0.0  # chance that an agent outlives its attempt
    late: float = 0.0  # chance that a node comes up to a minute after the others

    def settings_of(self, *, is_guest: bool) -> Settings:
        """The rules as an agent has them: a guest knows that others share its run."""
        if not is_guest:
            return self.settings
        most = self.settings.max_nodes
        return replace(self.settings, pool=True, expected_nodes=most, nodes_are_given=False)

    @classmethod
    def draw(cls, chance: Random, *, most_nodes: int = 10) -> Setting:
        """A run with trouble."""
        nodes = chance.randint(1, most_nodes)
        has_live_part = chance.random() < 0.35
        absent, guests = chance.choice([0, 0, 1]), chance.choice([0, 0, 0, 1, 2])
        settings = _draw_rules(chance, nodes, absent=absent)
        if settings.pool:
            guests = 0
        return cls(
            nodes,
            replace(settings, max_nodes=settings.max_nodes + chance.randint(0, guests)),
            guests=guests,
            faults=_draw_faults(chance, has_live_part=has_live_part),
            habits=Habits(
                work_s=chance.choice([5.0, 40.0]),
                stop_s=chance.choice([0.2, 3.0]),
                failure=chance.choice([0.0, 0.2]),
                closing=chance.choice([0.0, 0.1]),
            ),
            has_live_part=has_live_part,
            is_told=has_live_part,
            hurry_s=chance.choice([0.1, 0.1, 0.3]),
            trouble_s=chance.choice([60.0, 120.0]),
            notices=chance.choice([0.0, 0.7]),
            all_at_once=0.3,
            requeues=chance.choice([0.0, 0.4]),
            zombies=chance.choice([0.0, 0.4]),
            late=chance.choice([0.0, 0.3]),
        )


def _draw_rules(chance: Random, nodes: int, *, absent: int) -> Settings:
    """`absent` nodes are expected and never come."""
    policy = Random()
    policy.setstate(chance.getstate())  # a stream of its own: the known seeds stay what they are
    least = chance.randint(1, nodes)
    most = chance.randint(least, nodes + absent)
    is_pool = chance.random() < 0.25
    return Settings(
        min_nodes=least,
        max_nodes=most,
        expected_nodes=most if is_pool else nodes + absent,
        pool=is_pool,
        max_restarts=chance.randint(0, 4),
        restart_backoff_s=policy.choice([0.0, 1.0, 20.0]),
        same_failures=policy.choice([0, 2, 3]),
        node_failures=policy.choice([0, 1, 2, 3]),
        heartbeat_s=chance.choice([1.0, 5.0]),
        join_timeout_s=chance.choice([60.0, 10_000.0, 10_000.0]),
        last_call_s=chance.choice([0.5, 5.0, 30.0]),
        join_window_s=chance.choice([0.0, 1.0, 10.0]),
        store_lost_s=chance.choice([30.0, 300.0]),
        shutdown_timeout_s=chance.choice([5.0, 30.0]),
        allow_loopback=True,
    )


def _draw_faults(chance: Random, *, has_live_part: bool) -> Faults:
    spells = ETCD_SPELLS if has_live_part else FILE_SPELLS
    return Faults(
        lost_request=chance.choice([0.0, 0.001, 0.01]),
        lost_reply=chance.choice([0.0, 0.001, 0.01]),
        duplicate=chance.choice([0.0, 0.0, 0.01]),
        stale_read=chance.choice([0.0, 0.0, 0.02]),
        names_cached_s=0.0 if has_live_part else chance.choice([0.0, 0.0, 30.0]),
        pause_every_s=chance.choice([0.0, 100.0, 400.0]),
        crash_every_s=chance.choice([0.0, 0.0, 150.0, 400.0]),
        spells=tuple(kind for kind in spells if chance.random() < 0.5),
        spell_every_s=chance.choice([0.0, 40.0, 120.0]),
    )
