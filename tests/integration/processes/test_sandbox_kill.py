"""The sandbox kills a whole tree of processes as a power failure does: none of them notices."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from hpc_elastic.testing.sandbox import processes
from hpc_elastic.testing.sandbox.processes import Seen
from tests.integration.processes.bench import PATIENCE_S
from tests.waiting import wait_until

TREES = 20
# A task as slurmstepd starts it: in a process group of its own, in the session of its parent.
PARENT = """
import os, subprocess
child = "trap 'echo HUP >>heard' HUP; touch ready.$$; while :; do sleep 0.05; done"
subprocess.Popen(["sh", "-c", child], preexec_fn=os.setpgrp).wait()
"""


def test_no_process_of_a_killed_tree_hears_of_the_death_of_its_parent(tmp_path: Path) -> None:
    for number in range(1, TREES + 1):
        parent = subprocess.Popen([sys.executable, "-c", PARENT], cwd=tmp_path, start_new_session=True)
        wait_until(lambda: len(list(tmp_path.glob("ready.*"))) == number, PATIENCE_S, "the child runs")  # noqa: B023
        root = processes.look_at(parent.pid)
        assert root is not None

        def tree(root: Seen = root) -> set[Seen]:
            return {
                seen
                for seen in processes.with_descendants([root], processes.everyone())
                if processes.is_alive(seen.id)
            }

        assert processes.kill_all(tree) >= 2
        parent.wait()

    assert not (tmp_path / "heard").exists()
