"""How long each line of the README's quickstart takes a new user with a new environment, on a sandbox.

    python -m benchmarks.first_hour [--write]

Needs root and Slurm. What pip would fetch is there already. A line that shows a run waits until that trains,
and one that follows a run takes as long as the run.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from typing import Any, Final

from benchmarks import measured
from tests.examples.new_user import a_new_user

AT_MOST_S: Final = 300.0


def measure() -> dict[str, Any]:
    """Seconds by line, as JSON values."""
    with a_new_user() as user:
        user.types_the_quickstart()
        lines = [{"line": line, "seconds": round(took_s, 2)} for line, took_s in user.took_s.items()]
    return {
        "lines": lines,
        "seconds": round(sum(user.took_s.values()), 1),
        "until_the_first_run_has_survived_s": round(_until_it_goes_on(user.took_s), 1),
    }


def _until_it_goes_on(took_s: Mapping[str, float]) -> float:
    """Up to the end of the first run, which was preempted meanwhile."""
    lines = list(took_s)
    last = next(at for at, line in enumerate(lines) if line.startswith("hpc-elastic logs"))
    return sum(took_s[line] for line in lines[: last + 1])


def table(result: Mapping[str, Any]) -> str:
    """The lines as a table in Markdown."""
    lines = ["| typed | seconds |", "| --- | --- |"]
    lines += [f"| `{one['line']}` | {one['seconds']:g} |" for one in result["lines"]]
    lines.append(f"| all | {result['seconds']:g} |")
    return "\n".join(lines)


def main() -> int:
    """Measure and show, with `--write` also keep."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--write", action="store_true", help="keep the result in docs/measured/first_hour.json"
    )
    options = parser.parse_args()
    result = measure()
    print(table(result))
    if options.write:
        print(measured.write("first_hour", result))
    return 1 if result["seconds"] > AT_MOST_S else 0


if __name__ == "__main__":
    sys.exit(main())
