"""What `job.result()` gives, and what somebody sees who looks twice a second, whatever happens to the job.

    python -m benchmarks.results [--seconds S] [--write]

Needs root and Slurm, and has no accounting. Three runs on one sandbox: one is preempted twice, and between
that has no controller for `--seconds` and its client is killed and another attached; one comes to its time
limit; one loses a node. Ends with status 1 where a result is not that of an undisturbed run, or where a state
that was seen before the last one was final.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from benchmarks import measured
from hpc_elastic.status import snapshot
from hpc_elastic.submission.states import JobState
from tests.integration.slurm.result_trials import Watched, troubled_runs

SECONDS: Final = 60.0
WHAT: Final = {
    "taken": "two preemptions, no controller, client killed and another attached",
    "limited": "time limit",
    "bereft": "dead node",
}
_FINAL: Final = frozenset(state.value for state in JobState if state.is_final)


def measure(seconds: float) -> dict[str, Any]:
    """One row for each run, as JSON values."""
    with troubled_runs(seconds) as runs:
        rows = [_row(name, runs[name]) for name in WHAT]
    return {"controller_away_s": seconds, "look_every_s": 0.5, "accounting": False, "runs": rows}


def _row(name: str, run: Watched) -> dict[str, Any]:
    result = run.result()
    looks = [run.record(number).read_text().split() for number in range(len(run.clients))]
    return {
        "trouble": WHAT[name],
        "steps": len(result["took"]),
        "each_step_once": result["took"] == [*range(len(result["took"]))],
        "attempts": len(snapshot.read(run.run_dir).attempts),
        "looks": sum(map(len, looks)),
        "false_ends": sum(state in _FINAL for seen in looks for state in seen[:-1]),
        "states_seen": run.states(),
    }


def problems(result: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong with a measured run."""
    for row in result["runs"]:
        if row["false_ends"] or not row["each_step_once"] or row["states_seen"][-1][-1] != "COMPLETED":
            yield f"not as if nothing had happened: {row}"


def table(result: Mapping[str, Any]) -> str:
    """The runs as a table in Markdown."""
    rows: Sequence[Mapping[str, Any]] = result["runs"]
    away = f"{result['controller_away_s']:g} s without a controller"
    lines = ["| what happened | starts | looks | false ends | each step once |", f"|{' --- |' * 5}"]
    for row in rows:
        what = row["trouble"].replace("no controller", away)
        cells = (what, row["attempts"], row["looks"], row["false_ends"], row["each_step_once"])
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def main() -> int:
    """Measure and show, with `--write` also keep."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=SECONDS, help="how long the controller is away (60)")
    parser.add_argument("--write", action="store_true", help="keep the result in docs/measured/results.json")
    options = parser.parse_args()
    result = measure(options.seconds)
    print(table(result))
    if options.write:
        print(measured.write("results", result))
    wrong = list(problems(result))
    print(*wrong, sep="\n", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
