"""`python -m tools.run_tests [pytest options] PATHS`: what `make test` runs.

First what can share the machine, one file beside another (most of it waits for conditions), then what
measures and has to be alone. The status is that of the first part that failed.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Final

ALONE: Final = "alone"
_NOTHING_FOUND: Final = 5
_BESIDE: Final = "HPC_ELASTIC_TESTS_AT_ONCE"


def parts(at_once: int, words: Sequence[str]) -> list[list[str]]:
    """The command lines of the two parts."""
    shared = ["-n", str(at_once), "--dist", "loadfile"] if at_once > 1 else []
    return [
        [*shared, "-m", f"not {ALONE}", *words],
        ["-m", ALONE, *words],
    ]


def verdict(codes: Sequence[int]) -> int:
    """The status of all: a part without a test is fine, unless no part has one."""
    failed = [code for code in codes if code not in (0, _NOTHING_FOUND)]
    if failed:
        return failed[0]
    return 0 if 0 in codes else _NOTHING_FOUND


def main() -> int:
    at_once = int(os.environ.get(_BESIDE, "2"))
    codes = []
    for words in parts(at_once, sys.argv[1:]):
        codes.append(subprocess.run([sys.executable, "-m", "pytest", *words], check=False).returncode)
        if codes[-1] == 2:  # interrupted by a person
            break
    return verdict(codes)


if __name__ == "__main__":
    sys.exit(main())
