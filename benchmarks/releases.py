"""The same jobs on several releases of Slurm: what becomes of them, and where a release differs.

    python -m benchmarks.releases [RELEASE ...] [--make] [--write]

Needs root. Each release lives in a root of its own (`tools/slurm_root`), outside the checkout; one that is
not ready is made with `--make`, and only named as missing without. In each of them: the pairwise part of the
preemption matrix, all events, a job that is preempted again and again, and a pool whose elements are taken
away in turn. `--write` leaves what the file says of other releases. Ends with status 1 where a promise is
not kept on a release, or one that was asked for by name is missing.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from typing import Any, Final

from benchmarks import measured, pools, preemption
from hpc_elastic.testing.sandbox.options import SandboxOptions
from tests.integration.slurm.bench import Bench, a_sandbox
from tests.integration.slurm.matrix import PAIRS, Site, Submission, expected
from tests.integration.slurm.matrix_events import EVENTS, run_events
from tests.integration.slurm.matrix_run import preempt_again_and_again, run_site

PREEMPTIONS: Final = 3
_ROOT: Final = str(measured.ROOT / "tools" / "slurm_root")
# The one that the documentation speaks of where it names no other.
REFERENCE: Final = "22.05.8"

Row = Mapping[str, Any]


def measure_here() -> dict[str, Any]:
    """What happens on the Slurm that is installed where this runs, one sandbox after the other."""
    with ThreadPoolExecutor(2) as threads:
        events = threads.submit(run_events, tuple(EVENTS))
        sites = {site: threads.submit(run_site, site, chosen) for site, chosen in PAIRS.items()}
        often = threads.submit(preempt_again_and_again, PREEMPTIONS)
        rows = [row for site, found in sites.items() for row in _of_site(site, found.result())]
        happened = [{"event": name} | seen.as_json() for name, seen in events.result().items()]
        return {
            "version": measured.slurm_version(),
            "python": ".".join(map(str, sys.version_info[:3])),
            "preemptions": rows,
            "events": happened,
            "again_and_again": [often.result()],
            "pool": _pool(),
        }


def _of_site(site: Site, seen: Mapping[Submission, Any]) -> Iterator[dict[str, Any]]:
    for one, found in seen.items():
        yield {**asdict(site), **asdict(one), "expected": expected(site, one), **found.as_json()}


def _pool() -> dict[str, Any]:
    with a_sandbox(SandboxOptions(grace_s=10)) as sandbox:
        return pools.in_turn(Bench(sandbox, sandbox.user_directory()))


def problems(found: Mapping[str, Any]) -> list[str]:
    """What is not as promised on one release."""
    often = dict(found["again_and_again"][0])
    often["restarts"] -= needless_starts(found)
    as_promised = {**found, "again_and_again": [often]}
    return [*preemption.problems(as_promised), *pools.missed_goals({"pool": found["pool"]})]


def needless_starts(found: Mapping[str, Any]) -> int:
    """How often Slurm has started the job of `again_and_again` that was done; 0 but on some releases.

    A job that asks for its requeue within its grace time keeps the mark of the preemption there, and at its
    next end Slurm takes it for preempted: docs/slurm-facts.md.
    """
    often = found["again_and_again"][0]
    year, month, *_ = (int(part) for part in found["version"].split("."))
    has_fault = (24, 5) <= (year, month) < (26, 5)
    return 1 if has_fault and often["restarts"] == often["preemptions"] + 1 else 0


def table(releases: Sequence[Mapping[str, Any]]) -> str:
    """One line for each thing that happens; a release that does as the reference says only `same`."""
    reference = next(one for one in releases if one["version"] == REFERENCE)
    others = [one for one in releases if one is not reference]
    heads = ("what happens", f"on {REFERENCE}", *(one["version"] for one in others))
    seen = {one["version"]: dict(_outcomes(one)) for one in releases}
    lines = [
        (
            what,
            said,
            *(
                "same" if seen[one["version"]].get(what) == said else seen[one["version"]].get(what, "-")
                for one in others
            ),
        )
        for what, said in seen[REFERENCE].items()
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in (heads, ["---"] * len(heads), *lines))


def _outcomes(found: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for row in found["preemptions"]:
        signal = ", user signal" if row["user_signal"] else ""
        site = f"{row['mode'].upper()}, GraceTime {row['grace_s']}{signal}"
        user = f"`--signal` {row['signal_to']}, `--{'' if row['requeue'] else 'no-'}requeue`"
        yield f"preempted: {site}; {user}", _outcome(row)
    for row in found["events"]:
        yield row["event"], _outcome(row)
    often, pool = found["again_and_again"][0], found["pool"]
    yield (
        f"preempted {often['preemptions']} times",
        f"{often['state']}, restarts {often['restarts']}, failures counted {often['failures']}",
    )
    others, gaps = pool["other_elements_started_again"], pool["steps_missing_or_repeated"]
    yield (
        "each of four elements of a pool preempted in turn",
        f"restarts {pool['restarts_by_slurm']}, of others {others}; steps missing or repeated {gaps}",
    )


def _outcome(row: Row) -> str:
    back = "does not come back" if row["comes_back"] == "no" else f"comes back by {row['comes_back']}"
    heard = f" ({row['signal']})" if row["signal"] else ""
    state = f"{row['state']}, restarts {row['restarts']}"
    return f"{row['cause']}{heard}, saved: {row['saved']}, {back}, {state}"


def ready(release: str, *, make: bool) -> bool:
    """Whether there is a root with that release; with `make` it is made where the mirror can be reached."""
    if make:
        subprocess.run([_ROOT, "make", release], check=False)
    return f"{release} ready" in _listed()


def _listed() -> str:
    return subprocess.run([_ROOT, "list"], capture_output=True, text=True, check=True).stdout


def measure_in(release: str) -> dict[str, Any]:
    """`measure_here` in the root of a release."""
    command = [_ROOT, "in", release, "python3", "-m", "benchmarks.releases", "--here"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return {"measured_at": measured.origin()["measured_at"], **json.loads(done.stdout.splitlines()[-1])}


def with_those_before(found: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The releases of `found` and those that were measured before, oldest release first."""
    kept = measured.DIRECTORY / "releases.json"
    before = json.loads(kept.read_text())["releases"] if kept.exists() else []
    newest = {one["version"]: one for one in (*before, *found)}
    return [newest[version] for version in sorted(newest)]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "releases", nargs="*", metavar="RELEASE", help="as `tools/slurm_root list` names them"
    )
    parser.add_argument("--make", action="store_true", help="make the roots that are missing (network)")
    parser.add_argument("--here", action="store_true", help="on this machine's own Slurm; prints JSON")
    parser.add_argument("--write", action="store_true", help="keep it in docs/measured/releases.json")
    options = parser.parse_args()
    if options.here:
        print(json.dumps(measure_here()))
        return 0
    wanted = options.releases or [line.split()[0] for line in _listed().splitlines()]
    there = [release for release in wanted if ready(release, make=options.make)]
    found = [measure_in(release) for release in there]
    every = with_those_before(found) if options.write else found
    wrong = [f"Slurm {one['version']}: {problem}" for one in every for problem in problems(one)]
    missing = [f"Slurm {one} is missing: tools/slurm_root make {one}" for one in wanted if one not in there]
    if any(one["version"] == REFERENCE for one in every):
        print(table(every))
    print(*wrong, *missing, sep="\n", file=sys.stderr)
    if options.write:
        what = (__doc__ or "").partition("\n")[0]
        print(measured.write("releases", {"what": what, "releases": every, "problems": wrong}))
    return 1 if wrong or (options.releases and missing) else 0


if __name__ == "__main__":
    sys.exit(main())
