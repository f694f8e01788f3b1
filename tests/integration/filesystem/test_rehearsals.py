"""A whole run in short over two mounts, for each way in which a file system can be difficult."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hpc_elastic.locking import probe
from hpc_elastic.testing.passthrough.faults import MountFaults
from hpc_elastic.testing.passthrough.rehearsal import SETTINGS, Rehearsal
from tests.integration.filesystem.mounts import CACHING, SEEN_WITHIN_S, two_mounts

CALM = replace(SETTINGS, heartbeat_s=2.0)  # on a busy machine a keeper may well stand still for seconds

pytestmark = pytest.mark.needs_fuse


def rehearse(folder: Path, faults: MountFaults) -> dict[str, float]:
    """The delays of a rehearsal whose record keeps every law."""
    with two_mounts(folder, faults) as pair:
        delays = Rehearsal(pair.paths("record"), CALM, patience_s=120.0).run()
    assert Rehearsal([folder / "source" / "record"], CALM).broken_laws() == []
    return delays


@pytest.mark.parametrize("has_links", [True, False])
def test_with_names_believed_for_30_s_every_record_is_seen_by_all_long_before(
    tmp_path: Path, has_links: bool
) -> None:
    delays = rehearse(tmp_path, replace(CACHING, has_links=has_links))

    assert {what: s for what, s in delays.items() if s > SEEN_WITHIN_S} == {}
    report = probe.recorded(tmp_path / "source" / "record")
    assert report is not None
    assert report.way == ("link" if has_links else "folder")


@pytest.mark.parametrize("has_links", [True, False])
def test_replies_that_are_lost_make_no_second_record(tmp_path: Path, has_links: bool) -> None:
    lost = {"link": 0.2, "rename": 0.1, "create": 0.05}

    assert rehearse(tmp_path, MountFaults(has_links=has_links, lost_replies=lost, seed=3))


def test_errors_at_random_only_delay_the_run(tmp_path: Path) -> None:
    errors = {"ESTALE": 0.004, "EIO": 0.003, "ENOSPC": 0.002, "EDQUOT": 0.002}

    assert rehearse(tmp_path, MountFaults(errors=errors, seed=4))
