"""A run directory that the nodes do not share is doubted before the job waits for nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpc_elastic.submission import nodes_own


@pytest.mark.parametrize("folder", ["/tmp/run", "/var/tmp/a/b", "/dev/shm/run"])
def test_a_directory_for_temporary_files_is_doubted_with_what_to_type(folder: str) -> None:
    said = nodes_own.doubt(Path(folder), {})

    assert f"the run directory {folder} lies below /" in said
    assert "`hpc-elastic doctor --nodes 2`" in said
    assert "HPC_ELASTIC_HOME" in said


@pytest.mark.parametrize("folder", ["/scratch/run", "/tmpfiles/run", "/home/ann/tmp/run"])
def test_another_one_is_not(folder: str) -> None:
    assert "below /" not in nodes_own.doubt(Path(folder), {})


def test_several_nodes_on_one_machine_share_all_of_it() -> None:
    assert nodes_own.doubt(Path("/tmp/run"), {"HPC_ELASTIC_ALLOW_LOOPBACK": "1"}) == ""
