"""What is kept beside every measured number."""

from __future__ import annotations

import re
import shutil

from benchmarks import measured


def test_a_number_is_kept_with_commit_machine_and_versions() -> None:
    found = measured.origin()

    assert found["commit"]
    assert found["machine"]["cores"] >= 1
    assert found["versions"]["python"].count(".") == 2


def test_the_version_of_slurm_is_one_of_them_where_there_is_one() -> None:
    found = measured.versions().get("slurm", "")

    assert bool(found) is bool(shutil.which("slurmctld"))
    assert re.fullmatch(r"(\d+(\.\d+)*)?", found)
