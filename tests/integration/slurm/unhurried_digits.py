"""The example of handwritten digits, with pauses until there is a file `hurry` in the run directory.

    unhurried_digits.py [options of the example]

So what a test does to the job comes while it trains, however late, and the rest takes no time.
"""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from types import SimpleNamespace

from hpc_elastic import worker

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"


def main() -> None:
    sys.path.insert(0, str(EXAMPLES))
    import digits_numpy

    hurry = worker.context().run_dir / "hurry"

    def pause(seconds: float) -> None:
        threading.Event().wait(0.0 if hurry.exists() else seconds)

    vars(digits_numpy)["time"] = SimpleNamespace(sleep=pause)
    digits_numpy.main()


if __name__ == "__main__":
    main()
