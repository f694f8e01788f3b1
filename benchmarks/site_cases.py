"""What sites and people do to jobs beside a plain preemption: what is recorded of it, and what is lost.

    python -m benchmarks.site_cases [--write]

Needs root and Slurm, and two minutes. JobRequeue=0, a limit that is changed or absent, signals that ranks
reset, an evaluation that is longer than the grace time, a failing prolog, a bad node, a life of several ends,
mails. Nothing here depends on a quiet machine. Ends with status 1 where a case did not end as it should.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from typing import Any, Final

from benchmarks import measured
from hpc_elastic.testing.sandbox.options import SandboxOptions
from tests.integration.slurm import site_cases
from tests.integration.slurm.bench import Bench, a_sandbox
from tests.integration.slurm.site_cases import Cases

Row = Mapping[str, Any]

# Causes of its lives, failures counted, restarts by Slurm.
EXPECTED: Final = {
    "JobRequeue=0": (["preempted", ""], 0, 1),
    "no time limit": (["preempted", ""], 0, 1),
    "its limit changed while it runs": ([""], 0, 0),
    "a rank that keeps USR1 for itself": (["told by the user", ""], 0, 1),
    "a rank that USR1 kills": (["told by the user", ""], 0, 1),
    "several ends": (["preempted", "requeued", "preempted", ""], 1, 3),
    "a rank that looks up too late": (["preempted", ""], 0, 1),
    "a bad node": (["told by the user", ""], None, 1),
}


def problems(found: Mapping[str, Row]) -> Iterator[str]:
    """One sentence for each case that did not end as it should."""
    for kind, (causes, failures, restarts) in EXPECTED.items():
        row = found[kind]
        if (row["causes"], row["restarts"], row["state"]) != (causes, restarts, "COMPLETED"):
            yield f"{kind}: {row}"
        if failures is not None and row["failures"] != failures:
            yield f"{kind}: {row['failures']} failures counted and not {failures}"
    left_s = found["no time limit"]["seconds_left"]
    if not left_s or left_s > site_cases.GRACE_S:
        yield f"no time limit: {left_s} s left of a grace time of {site_cases.GRACE_S} s"
    if found["a rank that looks up too late"]["resumed_at"] != "starts at 20":
        yield f"it did not go on from its periodic save: {found['a rank that looks up too late']}"
    bad = found["a bad node"]
    if not bad["left_out"] or bad["excluded"].split(",")[-1] != bad["left_out"][0]:
        yield f"the bad node may come back: {bad}"
    held = found["a prolog that fails"]
    if not held["explained"] or held["attempts_while_held"] or held["state"] != "COMPLETED":
        yield f"a held job: {held}"
    if found["mails"]["sent"]:
        yield f"{found['mails']['sent']} mails were sent"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true", help="keep it in docs/measured/site-cases.json")
    options = parser.parse_args()
    with a_sandbox(SandboxOptions(nodes=site_cases.NODES, grace_s=site_cases.GRACE_S)) as sandbox:
        cases = Cases(Bench(sandbox, sandbox.user_directory()))
        site_cases.prepare(cases.bench)
        site_cases.submit(cases)
        found = site_cases.act(cases)
    for name, row in found.items():
        print(f"{name}: {row}", flush=True)
    missed = list(problems(found))
    print("\n".join(missed) or "every case ended as it should")
    if options.write:
        about = {"what": (__doc__ or "").partition("\n")[0], "grace_s": site_cases.GRACE_S}
        print(f"written to {measured.write('site-cases', about | found)}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
