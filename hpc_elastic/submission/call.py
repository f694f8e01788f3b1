"""What agents run as the worker of a submitted function: `python -m hpc_elastic.submission.call RUN_DIR`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from hpc_elastic.errors import UsageError
from hpc_elastic.submission.files import SubmissionFiles
from hpc_elastic.workers import calling


def main(arguments: list[str]) -> None:
    """Load the submitted function, call it, and leave its value or its exception in the run directory."""
    if len(arguments) != 1:
        raise UsageError(f"call {' '.join(arguments)}: give the run directory")
    files = SubmissionFiles(Path(arguments[0]))
    calling.call(files.payload, files.results, calling.Place.parse(os.environ))


if __name__ == "__main__":
    main(sys.argv[1:])
