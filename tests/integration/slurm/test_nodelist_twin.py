"""Our expansion of node lists beside that of `scontrol show hostnames`."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hpc_elastic.slurm.nodelist import BadNodeList, expand

pytestmark = [pytest.mark.needs_slurm, pytest.mark.timeout(600)]

# Reads the configuration, but asks no controller.
CONFIGURATION = "ClusterName=twin\nSlurmctldHost=localhost\nNodeName=n1 NodeHostname=localhost\n"

_NUMBERS = st.integers(0, 120).flatmap(lambda n: st.integers(1, 4).map(lambda width: str(n).zfill(width)))
_RANGES = st.one_of(_NUMBERS, st.tuples(_NUMBERS, _NUMBERS).map("-".join))
_BRACKETS = st.lists(_RANGES, min_size=1, max_size=3).map(lambda ranges: f"[{','.join(ranges)}]")
_PARTS = st.lists(st.tuples(st.sampled_from(["n", "gpu", "r-", "x.y"]), _BRACKETS), min_size=1, max_size=2)
_NAMES = st.one_of(
    _PARTS.map(lambda parts: "".join(a + b for a, b in parts)), st.sampled_from(["login1", "gpu-a", "n007"])
)
_LISTS = st.lists(_NAMES, min_size=1, max_size=3).map(",".join)


@pytest.fixture(scope="module")
def configuration(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("twin") / "slurm.conf"
    path.write_text(CONFIGURATION)
    return path


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(text=_LISTS)
def test_both_expand_to_the_same_names_or_both_refuse(configuration: Path, text: str) -> None:
    shown = subprocess.run(
        ["scontrol", "show", "hostnames", text],
        env={**os.environ, "SLURM_CONF": str(configuration)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    theirs = shown.stdout.split() or None  # a refusal ends with status 0 as well

    try:
        ours: list[str] | None = list(expand(text))
    except BadNodeList:
        ours = None

    assert ours == theirs
