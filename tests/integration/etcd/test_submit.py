"""`submit` tells its agents where the etcd is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import hpc_elastic
from hpc_elastic.testing.etcd_server import EtcdServer

pytestmark = pytest.mark.needs_etcd


def test_a_submitted_script_meets_in_the_etcd_that_was_named(etcd_server: EtcdServer, tmp_path: Path) -> None:
    script = tmp_path / "worker.py"
    script.write_text("print('ran')")

    job = hpc_elastic.submit(
        script,
        nodes=2,
        cluster="local",
        run_dir=tmp_path / "run",
        rdzv_backend="etcd",
        rdzv_endpoint=etcd_server.endpoint,
    )
    job.wait(timeout=240)

    chosen = json.loads((tmp_path / "run/record/attempts/1.backend").read_bytes())
    assert chosen["backend"] == "etcd-v3"
    assert chosen["endpoint"] == f"http://{etcd_server.endpoint}"
