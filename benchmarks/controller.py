"""What a controller that is away costs the jobs of a site.

    python -m benchmarks.controller [--seconds S] [--quiet S] [--write]

Needs root and Slurm. Three jobs on one sandbox: the controller stands still while the first trains, again
from the notice of the second on, and is ended and started again when the agents of the third have left.
Beside them a job trains for eleven minutes on a sandbox of its own, and what it asks of Slurm is counted.
Ends with status 1 where a job lost anything, did not come back exactly once, or asked more often than every
five minutes.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from typing import Any, Final

from benchmarks import measured
from hpc_elastic.slurm.walltime import REFRESH_S
from tests.integration.slurm.controller_questions import in_training, shortest_pause_s
from tests.integration.slurm.controller_stops import is_ended, run_stops
from tests.integration.slurm.matrix import Observed, faults

SECONDS: Final = 60.0
QUIET_S: Final = 660.0
_TO_START_S: Final = 1.0  # what a command may take from when it is asked for until it is counted

Row = Mapping[str, Any]


def measure(seconds: float, quiet_s: float) -> dict[str, Any]:
    """One row for each moment, and the questions of a job that trains undisturbed, as JSON values."""
    with ThreadPoolExecutor(1) as thread:
        questions = thread.submit(in_training, quiet_s)
        rows = [
            {"moment": moment, "requeues": seen.requeues, **seen.job.as_json()}
            for moment, seen in run_stops(seconds, is_ended).items()
        ]
        asked = questions.result()
    undisturbed = {
        "seconds": quiet_s,
        "asked": [asdict(one) for one in asked],
        "shortest_pause_s": shortest_pause_s(asked),
    }
    return {"seconds": seconds, "moments": rows, "undisturbed": undisturbed}


def problems(result: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong with a measured run."""
    for row in result["moments"]:
        seen = Observed(**{name: row[name] for name in Observed.__dataclass_fields__})
        yield from (f"{fault}: {row}" for fault in faults(seen))
        if (seen.state, seen.restarts, seen.lost_steps) != ("COMPLETED", row["requeues"], 0):
            yield f"not as if nothing had happened: {row}"
    pause_s = result["undisturbed"]["shortest_pause_s"]
    if pause_s is not None and pause_s < REFRESH_S - _TO_START_S:
        yield f"asked again after {pause_s:g} s: {result['undisturbed']['asked']}"


def in_words(undisturbed: Row) -> str:
    """How often a job that nothing happens to has asked."""
    asked, pause_s = len(undisturbed["asked"]), undisturbed["shortest_pause_s"]
    minutes = undisturbed["seconds"] / 60
    apart = "" if pause_s is None else f", after its start {pause_s:.0f} s apart at least"
    return (
        f"A job of two nodes that trained undisturbed for {minutes:.0f} minutes asked the controller {asked} "
        f"times{apart}."
    )


def table(seconds: float, rows: Sequence[Row]) -> str:
    """The moments as a table in Markdown."""
    head = f"the controller is away for {seconds:g} s"
    lines = [f"| {head} | saved | steps lost | comes back by | state, restarts |", f"|{' --- |' * 5}"]
    for row in rows:
        back = "-" if row["comes_back"] == "no" else row["comes_back"]
        how = f"{row['state']}, {row['restarts']}"
        lines.append(f"| {row['moment']} | {row['saved']} | {row['lost_steps']} | {back} | {how} |")
    return "\n".join(lines)


def main() -> int:
    """Measure and show, with `--write` also keep."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=SECONDS, help="how long it is away (60)")
    parser.add_argument(
        "--quiet", type=float, default=QUIET_S, help="how long nothing happens to a job (660)"
    )
    parser.add_argument(
        "--write", action="store_true", help="keep the result in docs/measured/controller.json"
    )
    options = parser.parse_args()
    result = measure(options.seconds, options.quiet)
    print(table(result["seconds"], result["moments"]), in_words(result["undisturbed"]), sep="\n\n")
    if options.write:
        print(measured.write("controller", result))
    wrong = list(problems(result))
    print(*wrong, sep="\n", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
