"""A pool of four elements on the sandbox: what it lives through, and what that costs in time.

    python -m benchmarks.pools [--seconds 360] [--write]

Each element is preempted in turn, then all at once, then the same under a throttle of three; then elements
with a limit of two minutes train for six. Ends with status 1 where a step is missing or was done twice,
where another element was started again, or where nobody was left.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any, Final

from benchmarks import measured
from benchmarks.pool_troubles import outcome, took_s
from hpc_elastic.clock import SYSTEM_CLOCK
from hpc_elastic.testing.sandbox.options import SandboxOptions
from tests.integration.slurm.bench import Bench, a_sandbox
from tests.integration.slurm.pool_bench import Pool

SIZE: Final = 4
_EARLIEST_SIGNAL: Final = (
    "--signal=USR2@5"  # Slurm may send it 60 s earlier still, and those are half of two minutes
)


def in_turn(bench: Bench) -> dict[str, Any]:
    """Each element is taken away and comes back while the others go on."""
    pool = Pool.submit(bench)
    pool.wait_for_world(SIZE)
    without, again, others = [], [], []
    for times, element in enumerate(range(SIZE), 1):
        lost_s = took_s(lambda element=element: pool.lose(element))  # type: ignore[misc]
        without.append(round(lost_s + took_s(lambda: pool.wait_for_world(SIZE - 1)), 2))
        pool.wait_until_runs(element)
        again.append(took_s(lambda: pool.wait_for_world(SIZE)))
        others.append(sum(pool.starts()) - times)
    pool.finish()
    return {
        **outcome(pool),
        "from_the_preemption_until_three_train_s": without,
        "from_its_new_start_until_four_train_s": again,
        "other_elements_started_again": sum(others),
    }


def at_once(bench: Bench, throttle: str) -> dict[str, Any]:
    """All that run are taken away at the same moment."""
    pool = Pool.submit(bench, throttle=throttle)
    size = 3 if throttle else SIZE
    pool.wait_for_world(size)
    running = [index for index in range(SIZE) if pool.element(index)["JobState"] == "RUNNING"]
    pool.lose(*running)
    back_s = took_s(lambda: pool.wait_for_world(size, 120.0))
    pool.finish()
    return {**outcome(pool), "preempted_at_once": len(running), "until_all_train_again_s": back_s}


def relay(bench: Bench, seconds: float) -> dict[str, Any]:
    """Elements with a limit of two minutes train for longer than that."""
    pool = Pool.submit(bench, "--time=2", _EARLIEST_SIGNAL, least=1)
    pool.wait_for_world(SIZE)
    until_s = SYSTEM_CLOCK.monotonic_s() + seconds
    seen: list[int] = []
    while SYSTEM_CLOCK.monotonic_s() < until_s:
        seen.append(sum(state.startswith("RUNNING") for state in pool.states()))
        SYSTEM_CLOCK.sleep_s(1.0)
    pool.finish()
    timed_out = sum(state == "TIMEOUT" for state in pool.states())
    return {
        **outcome(pool),
        "seconds": seconds,
        "fewest_members_of_a_round": min(len(one.members) for one in pool.rounds()),
        "fewest_elements_running": min(seen),
        "elements_over_their_limit": timed_out,
    }


def missed_goals(found: dict[str, Any]) -> list[str]:
    """One sentence for each promise that was not kept."""
    missed = [
        f"{name}: {what}"
        for name, one in found.items()
        for what in ("steps_missing_or_repeated", "failures_counted", "other_elements_started_again")
        if one.get(what)
    ]
    relay = found.get("relay")
    if relay and (relay["fewest_elements_running"] == 0 or relay["elements_over_their_limit"]):
        missed.append("relay: nobody was left, or somebody went over the limit")
    return missed


def main() -> int:
    parser = argparse.ArgumentParser(description="a pool on the sandbox")
    parser.add_argument("--seconds", type=float, default=360.0, help="how long the relay runs (360)")
    parser.add_argument("--write", action="store_true", help="keep it in docs/measured/pools.json")
    options = parser.parse_args()
    with a_sandbox(SandboxOptions(grace_s=10)) as sandbox:
        found = {
            "in turn": in_turn(Bench(sandbox, sandbox.user_directory())),
            "all at once": at_once(Bench(sandbox, sandbox.user_directory()), ""),
            "all at once, three at a time": at_once(Bench(sandbox, sandbox.user_directory()), "%3"),
            "relay": relay(Bench(sandbox, sandbox.user_directory()), options.seconds),
        }
    for name, one in found.items():
        print(name, one)
    missed = missed_goals(found)
    print("\n".join(missed) or "every promise was kept")
    if options.write:
        print(f"written to {measured.write('pools', {'what': __doc__.partition(chr(10))[0], **found})}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
