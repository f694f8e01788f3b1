"""What a pool lives through beside preemptions: people, bad nodes, dead nodes, spares, and guests.

    python -m benchmarks.pool_troubles [--write]

Ends with status 1 where a step is missing or was done twice, or where a failure was counted.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from benchmarks import measured
from hpc_elastic.clock import SYSTEM_CLOCK
from hpc_elastic.testing.sandbox.options import SandboxOptions
from tests.integration.slurm.bench import ENDED, Bench, a_sandbox
from tests.integration.slurm.pool_bench import CONF, Pool
from tests.waiting import wait_until

SIZE: Final = 4
_UNWELL: Final = ("--health-command", 'test "$SLURMD_NODENAME" != n2')


def took_s(act: Callable[[], object]) -> float:
    """How long `act` took, in seconds to two places."""
    began_s = SYSTEM_CLOCK.monotonic_s()
    act()
    return round(SYSTEM_CLOCK.monotonic_s() - began_s, 2)


def outcome(pool: Pool) -> dict[str, Any]:
    """How a run went, in numbers."""
    return {**_worlds(pool), "steps_missing_or_repeated": len(pool.gaps())}


def _worlds(pool: Pool) -> dict[str, Any]:
    rounds = pool.rounds()
    return {
        "worlds": [len(one.members) for one in rounds],
        "restarts_by_slurm": pool.starts(),
        "failures_counted": rounds[-1].proposal.failures,
    }


def ends(pool: Pool) -> dict[str, int]:
    """How many elements have ended in which state."""
    return dict(Counter(pool.element(index)["JobState"] for index in range(pool.size)))


def wait_for_ends(pool: Pool) -> None:
    """Until no element runs or waits any more."""
    for index in range(pool.size):
        pool.sandbox.wait_for_state(f"{pool.array}_{index}", ENDED)


def one_is_cancelled_while_it_waits(bench: Bench) -> dict[str, Any]:
    """A person takes an element out of the queue; the others go on as if it had never been there."""
    pool = Pool.submit(bench, throttle="%3")
    pool.wait_for_world(3)
    (waiting,) = set(range(SIZE)) - set(pool.running())
    pool.sandbox.run(["scancel", f"{pool.array}_{waiting}"], check=True)
    pool.finish()
    return {**outcome(pool), "ends": ends(pool)}


def all_are_cancelled(bench: Bench) -> dict[str, Any]:
    """`scancel` of the whole array: nobody comes back, and no failure is counted."""
    pool = Pool.submit(bench)
    pool.wait_for_world(SIZE)
    pool.sandbox.run(["scancel", pool.array], check=True)
    all_s = took_s(lambda: wait_for_ends(pool))
    return {**outcome(pool), "ends": ends(pool), "until_all_have_ended_s": all_s}


def one_is_unwell(bench: Bench) -> dict[str, Any]:
    """The health command of one element says no; the others train without it."""
    pool = Pool.submit(bench, run=_UNWELL)
    pool.wait_for_world(SIZE - 1)
    (lost,) = set(range(SIZE)) - set(pool.running())
    found = pool.element(lost)
    pool.finish()
    return {**outcome(pool), "ends": ends(pool), "the_unwell_one_ended_with": found["ExitCode"]}


def one_is_unwell_and_may_go_elsewhere(bench: Bench) -> dict[str, Any]:
    """The same where the user has asked for another node."""
    pool = Pool.submit(bench, size=3, run=(*_UNWELL, "--exclude-bad-nodes", "1"))
    pool.wait_for_world(3, 90.0)
    avoids = [pool.element(index)["ExcNodeList"] for index in range(pool.size)]
    pool.finish()
    return {**outcome(pool), "ends": ends(pool), "nodes_that_elements_avoid": sorted(avoids)}


def one_dies(bench: Bench) -> dict[str, Any]:
    """The node of an element loses its power; the element is started again on one that works."""
    pool = Pool.submit(bench)
    pool.wait_for_world(SIZE)
    lost = next(index for index in range(SIZE) if pool.element(index)["NodeList"] == "n2")
    pool.sandbox.kill_node("n2")
    try:
        without_s = took_s(lambda: pool.wait_for_world(SIZE - 1))
        began_s = SYSTEM_CLOCK.monotonic_s()
        wait_until(lambda: pool.element(lost)["Restarts"] == "1", 90.0, "Slurm starts it again")
        noticed_s = round(without_s + SYSTEM_CLOCK.monotonic_s() - began_s, 2)
    finally:
        pool.sandbox.start_node("n2")
    pool.wait_for_world(SIZE)  # not hurried: Slurm's kill of the start before may still be on its way
    pool.finish()
    return {
        **_worlds(pool),  # without a word nothing was saved, and this training saves at no other time
        "ends": ends(pool),
        "until_three_train_s": without_s,
        "until_slurm_requeues_it_s": noticed_s,
    }


def one_more_than_fit(bench: Bench) -> dict[str, Any]:
    """Four elements for a world of three: one is a spare, and takes the place of one that is preempted."""
    pool = Pool.submit(bench, most=3)
    pool.wait_for_world(3)
    wait_until(lambda: len(pool.running()) == SIZE, 30.0, "the spare runs")
    members = {member.name for member in pool.rounds()[-1].members}
    lost = next(index for index in range(SIZE) if pool.element(index)["NodeList"] in members)
    replaced_s = took_s(lambda: pool.lose(lost)) + took_s(lambda: pool.wait_for_world(3))
    wait_until(lambda: len(pool.running()) == SIZE, 30.0, "it is the spare now")
    pool.finish()
    return {**outcome(pool), "ends": ends(pool), "until_the_spare_trains_s": round(replaced_s, 2)}


def it_finishes_while_one_waits(bench: Bench) -> dict[str, Any]:
    """What still waits is taken out of the queue."""
    pool = Pool.submit(bench, throttle="%3")
    pool.wait_for_world(3)
    pool.let_end()
    wait_until(lambda: pool.record().has_succeeded, 30.0, "the run is done")
    empty_s = took_s(
        lambda: wait_until(
            lambda: not pool.sandbox.run(["squeue", "-h"]).stdout.strip(), 60.0, "the queue is empty"
        )
    )
    return {**outcome(pool), "ends": ends(pool), "from_the_end_until_the_queue_is_empty_s": empty_s}


def all_are_preempted_twice(bench: Bench) -> dict[str, Any]:
    """All at once, and once more as soon as they run again."""
    pool = Pool.submit(bench)
    pool.wait_for_world(SIZE)
    for _ in range(2):
        wait_until(lambda: len(pool.running()) == SIZE, 60.0, "all run")
        pool.lose(*range(SIZE))
    back_s = took_s(lambda: pool.wait_until_trains(SIZE, 120.0))
    pool.finish()
    return {**outcome(pool), "ends": ends(pool), "until_all_train_again_s": back_s}


def only_one_has_a_node(bench: Bench) -> dict[str, Any]:
    """On a busy site elements come one by one: they wait for each other in the queue until two have nodes."""
    pool = Pool.submit(bench, size=2, throttle="%1", run=("--rdzv-conf", f"{CONF},join_timeout=12"))
    wait_until(lambda: sum(pool.starts()) >= 2, 90.0, "each has waited in vain")
    pool.sandbox.run(["scontrol", "update", f"JobId={pool.array}", "ArrayTaskThrottle=0"], check=True)
    alone = sum(pool.starts())
    pool.wait_until_trains(2, 90.0)
    pool.finish()
    return {**outcome(pool), "ends": ends(pool), "starts_in_vain": alone}


def a_guest_comes_to_its_time_limit(bench: Bench) -> dict[str, Any]:
    """Slurm's own signal comes too late on purpose: the batch side tells the guest's agents."""
    run = Pool.of_one_job(bench, 2, 3)
    run.wait_for_world(2)
    guest = run.join("-c2", "--time=2", "--signal=USR2@1")
    run.wait_for_world(3)
    left_s = took_s(lambda: run.wait_for_world(2, 150.0))
    run.wait_for_world(3, 90.0)
    run.let_end()
    ended = [run.sandbox.wait_for_state(job, ENDED)["JobState"] for job in (run.array, guest)]
    return {**outcome(run), "ends": dict(Counter(ended)), "it_left_after_s": left_s}


CASES: Final[dict[str, Callable[[Bench], dict[str, Any]]]] = {
    "one is cancelled while it waits": one_is_cancelled_while_it_waits,
    "all are cancelled": all_are_cancelled,
    "one is unwell": one_is_unwell,
    "one is unwell and may go elsewhere": one_is_unwell_and_may_go_elsewhere,
    "a node dies": one_dies,
    "one more than fit": one_more_than_fit,
    "the run finishes while one waits": it_finishes_while_one_waits,
    "all are preempted twice": all_are_preempted_twice,
    "only one has a node": only_one_has_a_node,
    "a guest comes to its time limit": a_guest_comes_to_its_time_limit,
}


def main() -> int:
    parser = argparse.ArgumentParser(description="what happens to a pool on the sandbox")
    parser.add_argument("--write", action="store_true", help="keep it in docs/measured/pool_troubles.json")
    options = parser.parse_args()
    found = {}
    with a_sandbox(SandboxOptions(grace_s=10)) as sandbox:
        for name, case in CASES.items():
            found[name] = case(Bench(sandbox, sandbox.user_directory()))
            print(name, found[name], flush=True)
    wrong = ("steps_missing_or_repeated", "failures_counted")
    missed = [f"{name}: {what}" for name, one in found.items() for what in wrong if one.get(what)]
    print("\n".join(missed) or "every promise was kept")
    if options.write:
        print(
            f"written to {measured.write('pool_troubles', {'what': __doc__.partition(chr(10))[0], **found})}"
        )
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
