"""`hpc-elastic doctor` on a real Slurm, and across its nodes."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from hpc_elastic.testing.sandbox import Sandbox
from tests.integration.slurm.bench import ROOT

pytestmark = [pytest.mark.needs_slurm, pytest.mark.timeout(480)]


def test_the_site_and_all_its_nodes_are_examined(slurm_sandbox: Sandbox, user_dir: Path) -> None:
    asked = ("doctor", "--nodes", "4", "--run-dir", str(user_dir / "runs"), "--json")
    container = user_dir / "container"
    container.write_text(f'#!/bin/sh\necho "$SLURMD_NODENAME $1" >>{user_dir}/calls\nexec "$@"\n')
    container.chmod(0o755)
    agents = {"HPC_ELASTIC_PYTHON": sys.executable, "HPC_ELASTIC_LAUNCH_PREFIX": str(container)}

    answer = slurm_sandbox.run(
        (sys.executable, "-m", "hpc_elastic", *asked),
        cwd=user_dir,
        env={"PYTHONPATH": str(ROOT), **agents},
        timeout_s=300.0,
    )

    assert answer.returncode == 0, answer.stderr
    findings = {one["check"]: one for one in json.loads(answer.stdout)}
    assert findings["Slurm"]["fact"].startswith("version 2")
    assert "PreemptMode=REQUEUE" in findings["partition low"]["fact"]
    assert findings["shared directory"]["fact"] == "4 of 4 nodes see each other's files"
    assert findings["shared directory"]["nodes"] == list(slurm_sandbox.nodes)
    assert findings["Python"]["nodes"] == list(slurm_sandbox.nodes)
    assert sys.executable in findings["Python"]["fact"]
    calls = (user_dir / "calls").read_text().splitlines()
    assert sorted(calls) == [f"{node} {sys.executable}" for node in slurm_sandbox.nodes]
    assert list(user_dir.glob(".doctor-*")) == []
