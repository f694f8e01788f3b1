"""The first node, which proposes and settles, stands still or dies before any single operation."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from hpc_elastic.rendezvous.record import Cause, Closed, End, Round, Settled
from hpc_elastic.rendezvous.standing import Settings
from hpc_elastic.testing.simulated_agent import SimulatedAgent
from hpc_elastic.testing.simulated_setting import Habits, Setting
from hpc_elastic.testing.simulation import Simulation

pytestmark = pytest.mark.timeout(1200)  # all of it is computing, which takes as long as others compute

RULES = Settings(
    min_nodes=2,
    max_nodes=3,
    expected_nodes=3,
    heartbeat_s=1.0,
    last_call_s=2.0,
    join_window_s=0.2,
    shutdown_timeout_s=5.0,
    store_lost_s=60.0,
    max_restarts=1,
    restart_backoff_s=0.0,
    allow_loopback=True,
)
QUIET = Habits(work_s=2.0, stop_s=0.3, save_s=0.3, infection=0.0)
ASLEEP_S = 15.0  # five liveness times
OVER_AFTER_S = 120.0


class Interrupted(Simulation):
    """A run of three nodes. The first is struck before its operation `struck_at`; round 1 fails once."""

    struck_at = 0
    dies = False
    operations_of_first = 0
    has_failed = False

    def _operate(self, agent: SimulatedAgent, ticket: int) -> None:
        mine = agent.name == "n0" and agent.ticket == ticket and agent.pending is not None
        if mine and agent.paused_until_s <= self.now_s:
            self.operations_of_first += 1
            if self.operations_of_first == self.struck_at:
                self._strike(agent)
        elif agent.name == "n1" and agent.present_round() == 1 and not self.has_failed:
            self.has_failed = True
            agent.fail(1, ran_s=1.0)
        super()._operate(agent, ticket)

    def _strike(self, agent: SimulatedAgent) -> None:
        if self.dies:
            self.kill(agent, "is killed")
        else:
            self.pause(agent, ASLEEP_S)


def lived(at: int, *, dies: bool, has_live_part: bool) -> Interrupted:
    setting = Setting(
        3, RULES, habits=QUIET, has_live_part=has_live_part, is_told=has_live_part, trouble_s=OVER_AFTER_S
    )
    run = Interrupted(setting, Random(1))
    run.struck_at, run.dies = at, dies
    run.run()
    return run


def rounds(run: Simulation) -> Iterator[Round]:
    return (record for record in run.backend.ledger.values() if isinstance(record, Round))


@pytest.mark.parametrize(
    ("dies", "has_live_part"),
    [(False, False), (False, True), (True, False)],
    ids=["stands still, in a directory", "stands still, in etcd", "dies"],
)
def test_wherever_the_first_node_is_struck_the_others_agree_and_the_run_is_done(
    dies: bool, has_live_part: bool
) -> None:
    undisturbed = lived(0, dies=dies, has_live_part=has_live_part)
    assert undisturbed.broken == []
    assert len(list(rounds(undisturbed))) == 2
    wrong = []

    each = 2 if has_live_part or dies else 1  # the others are for the time of this test
    for at in range(1, undisturbed.operations_of_first + 1, each):
        run = lived(at, dies=dies, has_live_part=has_live_part)
        told = run.broken or _wrong_with(run)
        if told:
            wrong.append(f"before operation {at}: {told}")

    assert wrong == []
    assert undisturbed.operations_of_first > 50


def _wrong_with(run: Simulation) -> str:
    ledger = run.backend.ledger.values()
    if not any(isinstance(record, Closed) and record.succeeded for record in ledger):
        return "the run is not done"
    if run.now_s > OVER_AFTER_S:
        return f"it took {run.now_s:.0f} s"
    spent = sum(isinstance(record, Settled) and record.cause.is_failure for record in ledger)
    failed = sum(isinstance(record, End) and record.cause is Cause.WORKER_FAILED for record in ledger)
    return f"{spent} failures are counted of {failed}" if spent > failed else ""
