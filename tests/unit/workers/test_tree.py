"""Finding processes: what can be seen of this one."""

from __future__ import annotations

import os
import signal
from dataclasses import replace

from hpc_elastic.workers import tree


def test_this_process_is_seen_as_it_is() -> None:
    seen = tree.look_at(os.getpid())

    assert seen is not None
    assert (seen.parent, seen.group, seen.session) == (os.getppid(), os.getpgrp(), os.getsid(0))
    assert seen.is_alive
    assert seen in [replace(each, state=seen.state) for each in tree.snapshot()]


def test_a_process_that_is_not_there_is_none() -> None:
    assert tree.look_at(2**22 + 1) is None


def test_a_later_process_under_the_same_id_is_not_signalled() -> None:
    seen = tree.look_at(os.getpid())
    assert seen is not None

    earlier = replace(seen, start_ticks=seen.start_ticks - 1)

    assert not tree.send(earlier, signal.SIGKILL)
    assert tree.send(seen, signal.SIGCONT)


def test_nobody_carries_a_marker_that_nobody_was_given() -> None:
    assert tree.left_behind("no such marker", sessions=(), known=()) == []


def test_a_process_without_ended_children_reaps_nobody() -> None:
    assert tree.reap_adopted(known=()) == []


def test_processes_are_described_for_a_message() -> None:
    seen = tree.Process(2**30, parent=1, group=7, session=7, state="D", start_ticks=5, name="python")

    assert tree.describe([seen]) == f"python (pid {2**30}, state D)"
