"""What becomes of a preempted job on every kind of site, and of one that something else stops.

    python -m benchmarks.preemption [--write]

Needs root and Slurm. One sandbox for each choice of the administrators, on it one job for each choice of the
user, all preempted at the same moment; one more sandbox for time limit, cancel, signals, requeue, suspension;
and one job that is preempted again and again. Ends with status 1 where a job lost what it need not lose.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from typing import Any, Final

from benchmarks import measured
from tests.integration.slurm.matrix import SITES, SUBMISSIONS, Observed, Site, expected, faults
from tests.integration.slurm.matrix_events import EVENTS, run_events
from tests.integration.slurm.matrix_run import preempt_again_and_again, run_site

PREEMPTIONS: Final = 8
_AT_ONCE: Final = 2  # sandboxes
_HEADS: Final = ("recorded as", "first heard", "saved", "steps lost", "comes back by", "state, restarts")

Row = Mapping[str, Any]


def measure() -> dict[str, list[Row]]:
    """Every cell, as JSON values."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        events = pool.submit(run_events, tuple(EVENTS))
        sites = [pool.submit(_site, site) for site in SITES]
        often = pool.submit(preempt_again_and_again, PREEMPTIONS)
        return {
            "preemptions": list(itertools.chain.from_iterable(one.result() for one in sites)),
            "events": [{"event": name} | seen.as_json() for name, seen in events.result().items()],
            "again_and_again": [often.result()],
        }


def _site(site: Site) -> list[Row]:
    seen = run_site(site, SUBMISSIONS)
    return [
        {**asdict(site), **asdict(one), "expected": expected(site, one), **found.as_json()}
        for one, found in seen.items()
    ]


def problems(result: Mapping[str, Sequence[Row]]) -> Iterator[str]:
    """What is wrong with a measured run."""
    for row in (*result["preemptions"], *result["events"]):
        yield from (f"{fault}: {row}" for fault in faults(_observed(row)))
        if row["comes_back"] != row.get("expected", row["comes_back"]):
            yield f"comes back by {row['comes_back']} and not by {row['expected']}: {row}"
    for row in result["again_and_again"]:
        if row["failures"] or row["restarts"] != row["preemptions"] or row["state"] != "COMPLETED":
            yield f"preemptions were not for free: {row}"


def _observed(row: Row) -> Observed:
    return Observed(**{name: row[name] for name in Observed.__dataclass_fields__})


def table(rows: Sequence[Row]) -> str:
    """The preemptions as a table in Markdown: one line for each site and choice of the user."""
    heads = ("PreemptMode", "GraceTime", "user-signal option", "`--signal` to", "requeue", *_HEADS)
    lines = []
    for row in rows:
        site = (row["mode"].upper(), row["grace_s"], "on" if row["user_signal"] else "off")
        user = (row["signal_to"], "`--requeue`" if row["requeue"] else "`--no-requeue`")
        lines.append((*site, *user, *_seen(row)))
    return _markdown(heads, lines)


def table_of_events(rows: Sequence[Row]) -> str:
    """The other events as a table in Markdown."""
    return _markdown(("what happens", *_HEADS), [(row["event"], *_seen(row)) for row in rows])


def _seen(row: Row) -> tuple[object, ...]:
    back = "-" if row["comes_back"] == "no" else row["comes_back"]
    how = f"{row['state']}, {row['restarts']}"
    return row["cause"], row["signal"] or "-", row["saved"], row["lost_steps"], back, how


def _markdown(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def main() -> int:
    """Measure and show, with `--write` also keep."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--write", action="store_true", help="keep the result in docs/measured/preemption.json"
    )
    options = parser.parse_args()
    result = measure()
    print(
        table(result["preemptions"]), table_of_events(result["events"]), result["again_and_again"], sep="\n\n"
    )
    if options.write:
        print(measured.write("preemption", result))
    wrong = list(problems(result))
    print(*wrong, sep="\n", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
