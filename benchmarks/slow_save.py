"""Saves of 30 s in a queue that gives 20 s: what is said, what is cut off, and what is left of the work.

    python -m benchmarks.slow_save [--save 30] [--grace 20] [--write]

Needs root and Slurm. Three jobs at once: two are preempted in the middle of their saves, the third comes to
its time limit. A fourth one then saves as often as the warning advises, and is preempted too. Nothing here
depends on a quiet machine. Ends with status 1 where a start was not warned, where a save that was cut off
cost more than itself, or where the advised setting did not save in time.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from typing import Any, Final

from benchmarks import measured
from hpc_elastic.rendezvous.record import Outcome
from hpc_elastic.testing.sandbox.options import SandboxOptions
from tests.integration.slurm.bench import Bench, a_sandbox
from tests.integration.slurm.slow_saves import WARNING, Lives, Slow, Speed

_LIMIT_MINUTES: Final = 3

Row = Mapping[str, Any]


def measure(bench: Bench, speed: Speed) -> dict[str, Row]:
    """What became of each job, as JSON values."""
    slow = Slow.run(bench, speed, _LIMIT_MINUTES)
    warned = WARNING.search(bench.output(slow.agreed.job))
    every_s = int(warned.group(2)) if warned else 10 * speed.save_s
    advised = follow_the_advice(bench, speed, every_s)
    return {
        "cut off, by agreement": _of(slow.agreed, 2) | {"warned": warned.group() if warned else ""},
        "cut off, a plain script": _of(slow.plain, 1),
        "at the time limit": _of(slow.limited, 1),
        "cut off, saving as often as advised": _of(advised, 1) | {"every_s": every_s},
    }


def follow_the_advice(bench: Bench, speed: Speed, every_s: int) -> Lives:
    """A job that saves every `every_s`, preempted some steps after its first such save."""
    lives = Lives.submit(bench, speed, words=("agreed",), LAST=2, EVERY_S=every_s)
    lives.wait_for(1, "\nsaved ", more_s=every_s)
    lives.wait_for(1, f"step {lives.saved_in(1) + 20}\n")
    bench.sandbox.preempt(lives.job, seconds=1)
    lives.end()
    return lives


def _of(lives: Lives, life: int) -> dict[str, Any]:
    """What happened to the save at the end of `life`, and where the next one went on."""
    record, run = lives.bench.sandbox.job(lives.job), lives.bench.run(lives.job)
    outcomes = {one.outcome for one in run.presences if one.attempt == life}
    why, kept = run.attempts[life - 1].why_stopped, _kept(lives, life)
    return {
        "cause": why.reason.value if why else "none",
        "saved": outcomes == {Outcome.SAVED},
        "last_step_taken": lives.reached_in(life),
        "last_step_saved": kept,
        "next_life": lives.start_of(life + 1),
        "goes_on_from_the_last_save": lives.start_of(life + 1) == f"starts at {kept + 1}, whole",
        "state": record["JobState"],
        "restarts": int(record["Restarts"]),
    }


def _kept(lives: Lives, life: int) -> int:
    saved = [lives.saved_in(number) for number in range(1, life + 1) if "\nsaved " in lives.text(number)]
    return max(saved, default=-1)


def problems(found: Mapping[str, Row]) -> Iterator[str]:
    """One sentence for each promise that was not kept."""
    for name, row in found.items():
        if not row["goes_on_from_the_last_save"] or row["state"] != "COMPLETED":
            yield f"{name}: {row}"
        if row["saved"] != (name == "at the time limit"):
            yield f"{name}: the save at the end was {'' if row['saved'] else 'not '}made in time"
    if not found["cut off, by agreement"]["warned"]:
        yield "the start after the first save did not say that it does not fit"
    advised = found["cut off, saving as often as advised"]
    if advised["last_step_saved"] < 0:
        yield "nothing was saved by the advised setting"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--save", type=int, default=30, help="seconds of a save (30)")
    parser.add_argument("--grace", type=int, default=20, help="seconds of the grace time (20)")
    parser.add_argument("--write", action="store_true", help="keep it in docs/measured/slow-save.json")
    options = parser.parse_args()
    speed = Speed(options.grace, options.save)
    with a_sandbox(SandboxOptions(nodes=3, grace_s=speed.grace_s)) as sandbox:
        found = measure(Bench(sandbox, sandbox.user_directory()), speed)
    for name, row in found.items():
        print(f"{name}: {row}", flush=True)
    missed = list(problems(found))
    print("\n".join(missed) or "every promise was kept")
    if options.write:
        about = {"what": (__doc__ or "").partition("\n")[0], "save_s": speed.save_s, "grace_s": speed.grace_s}
        print(f"written to {measured.write('slow-save', about | found)}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
