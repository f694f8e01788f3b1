"""Places of a run that are unusual and right: a long path, any umask, links of one's own inside."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.agent.agents import STEPPER, Agents, agents_in


@pytest.fixture
def agents(tmp_path: Path) -> Iterator[Agents]:
    with agents_in(tmp_path) as made:
        yield made


def stop_and_go_on(agents: Agents, run_dir: Path, umask: str) -> None:
    """Two agents stop for a notice and save; the next start goes on from there and is done."""
    script = agents.script(STEPPER)
    inside = ("sh", "-c", f'umask {umask}; exec "$@"', "sh")
    for index in (0, 1):
        agents.start(index, "--run-dir", run_dir, script, nodes="2", count=2, inside=inside)
    agents.wait_for_line("step 3", 0, 1)
    agents.wait_for_line("step 3", 1, 1)
    agents.signal("n0", signal.SIGUSR2)
    assert agents.statuses() == {"n0": 80, "n1": 80}

    for index in (0, 1):
        agents.start(index, "--run-dir", run_dir, script, "3", nodes="2", count=2, restart=1, inside=inside)
    assert agents.statuses() == {"n0": 0, "n1": 0}


@pytest.mark.parametrize("umask", ["000", "077"])
def test_a_run_at_a_path_of_200_characters_is_nobody_elses_whatever_the_umask(
    agents: Agents, umask: str
) -> None:
    home = agents.folder / "home"
    run_dir = home / ("long " * 12) / ("d" * 60) / "run"
    run_dir = run_dir.with_name("r" * max(3, 200 - len(str(run_dir.parent))))
    assert len(str(run_dir)) >= 200
    (agents.folder / "run").symlink_to(run_dir)

    stop_and_go_on(agents, run_dir, umask)

    above = [run_dir, *(path for path in run_dir.parents if path.is_relative_to(home))]
    assert [oct(path.stat().st_mode & 0o022) for path in above] == [oct(0)] * len(above)
    assert run_dir.stat().st_mode & 0o777 == 0o700


def test_folders_of_a_run_may_be_links_to_other_disks_of_ones_own(agents: Agents) -> None:
    run_dir = agents.run_dir
    run_dir.mkdir(mode=0o700)
    for name in ("record", "logs", "checkpoints", "errors"):
        (agents.folder / f"disk-{name}").mkdir(mode=0o700)
        (run_dir / name).symlink_to(agents.folder / f"disk-{name}")

    stop_and_go_on(agents, run_dir, "022")

    assert os.listdir(agents.folder / "disk-record" / "rounds")
