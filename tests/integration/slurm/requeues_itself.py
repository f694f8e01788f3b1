"""A user's script that asks for the requeue by itself when it is told to stop."""

from __future__ import annotations

import subprocess

from hpc_elastic import worker
from tests.integration.slurm import matrix_job


def main() -> None:
    ctx = worker.context()
    leave = ctx.leave

    def requeue_and_leave() -> None:
        job = ctx.run_dir.name.rpartition("-")[2]
        subprocess.run(["/usr/bin/scontrol", "requeue", job], check=False)
        leave()

    ctx.leave = requeue_and_leave  # type: ignore[method-assign, assignment]
    matrix_job.main()


if __name__ == "__main__":
    main()
