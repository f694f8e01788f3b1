"""Time limit after time limit: a job that never saves ends with status 82, one that saves goes on.

    python -m benchmarks.time_limits [--write]

Needs root and Slurm, and some minutes: Slurm's shortest limit is one. Nothing here depends on a quiet
machine. Ends with status 1 where a job that never saves got more or fewer starts than its budget, or one that
saves did not come to its end.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from typing import Any, Final

from benchmarks import measured
from hpc_elastic import settings
from hpc_elastic.clock import SYSTEM_CLOCK
from hpc_elastic.exit_codes import ExitCode
from hpc_elastic.testing.sandbox.options import SandboxOptions
from tests.integration.slurm.bench import ROOT, Bench, a_sandbox

NEVER: Final = str(ROOT / "tests" / "integration" / "slurm" / "never_saves_job.py")
SAVES: Final = str(ROOT / "tests" / "integration" / "slurm" / "matrix_job.py")
BUDGET: Final = settings.MAX_RESTARTS
# Agents, and the hook, without any Slurm command: as in a container that has none.
NOWHERE: Final = {"HPC_ELASTIC_LAUNCH_PREFIX": "env PATH=/nowhere"}
# More time limits than the other job is given.
LIVES: Final = BUDGET + 2
_LIFE_S: Final = 150.0  # a minute, what Slurm is late, and its wait after a requeue

Row = Mapping[str, Any]


def measure(bench: Bench) -> dict[str, Row]:
    """All jobs at once, as JSON values."""
    jobs = {
        "never saves": bench.submit("-N", "1", "--time=1", words=(NEVER,)),
        "never saves, in a container": bench.submit("-N", "1", "--time=1", words=(NEVER,), env=NOWHERE),
        "saves": bench.submit("-N", "1", "--time=1", words=(SAVES,), env={"LIVES": str(LIVES)}),
    }
    began_s = SYSTEM_CLOCK.monotonic_s()
    return {name: _row(bench, job, began_s) for name, job in jobs.items()}


def _row(bench: Bench, job: str, began_s: float) -> dict[str, Any]:
    state, status, lines = bench.end_of(job, timeout_s=(LIVES + 1) * _LIFE_S)
    run = bench.run(job)
    return {
        "starts": len(run.attempts),
        "causes": [one.why_stopped.reason.value if one.why_stopped else "" for one in run.attempts],
        "outcomes": [one.outcome.value if one.outcome else "" for one in run.presences],
        "state": state,
        "status": int(status.partition(":")[0]),
        "restarts": int(bench.sandbox.job(job)["Restarts"]),
        "said": next((line for line in reversed(lines) if "(status" in line), ""),
        "seconds": round(SYSTEM_CLOCK.monotonic_s() - began_s, 1),
    }


def problems(found: Mapping[str, Row]) -> Iterator[str]:
    """One sentence for each promise that was not kept."""
    for name in (name for name in found if name.startswith("never")):
        never = found[name]
        if (never["starts"], never["state"], never["status"]) != (BUDGET + 1, "FAILED", ExitCode.NO_PROGRESS):
            yield f"not {BUDGET + 1} starts and status {int(ExitCode.NO_PROGRESS)}: {name}: {never}"
        if set(never["causes"]) != {"time limit"}:
            yield f"ended by something else than its limit: {name}: {never}"
    saves = found["saves"]
    if (saves["starts"], saves["state"], saves["status"]) != (LIVES + 1, "COMPLETED", 0):
        yield f"a job that saves did not come to its end: {saves}"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true", help="keep it in docs/measured/time-limits.json")
    options = parser.parse_args()
    with a_sandbox(SandboxOptions(nodes=3)) as sandbox:
        found = measure(Bench(sandbox, sandbox.user_directory()))
    for name, row in found.items():
        print(f"{name}: {row}", flush=True)
    missed = list(problems(found))
    print("\n".join(missed) or "every promise was kept")
    if options.write:
        about = {"what": (__doc__ or "").partition("\n")[0], "budget": BUDGET}
        print(f"written to {measured.write('time-limits', about | found)}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
