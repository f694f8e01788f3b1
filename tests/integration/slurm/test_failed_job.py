"""A script that always crashes: its budget of attempts, then FAILED, whatever the site makes of a status."""

from __future__ import annotations

import pytest

from hpc_elastic.testing.sandbox.options import SandboxOptions
from tests.integration.slurm.bench import Bench, a_sandbox

pytestmark = pytest.mark.needs_slurm


def test_a_crashing_script_uses_up_its_restarts_and_stays_failed_also_under_the_sites_requeue_exit() -> None:
    with a_sandbox(SandboxOptions(nodes=2, requeue_exit="7")) as sandbox:
        bench = Bench(sandbox, sandbox.user_directory())
        script = bench.folder / "crash.py"
        script.write_text("import sys\nsys.exit(7)\n")
        job = bench.submit("-N", "2", words=("--max-restarts", "1", str(script)))

        state, code, lines = bench.end_of(job)

        assert (state, code, sandbox.job(job)["Restarts"]) == ("FAILED", "1:0", "0"), "\n".join(lines)
        assert sum(one.has_started for one in bench.run(job).rounds) == 2
        assert "failed" in lines[-1]
        assert "RequeueExit" in lines[-1]
