"""From a rank that is overdue to its sentence: stacks first, and whoever goes on meanwhile is spared."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, cast

import pytest

from hpc_elastic.agent.overdue import FIRST_SIGNS, Limits, Source
from hpc_elastic.agent.overseer import Condemned, Overseer
from hpc_elastic.rendezvous.record import Cause
from hpc_elastic.workers import bootstrap
from hpc_elastic.workers.group import WorkerGroup
from hpc_elastic.workers.logs import LogFiles
from hpc_elastic.workers.page import Page, WorkerPage
from tests.unit.agent.scripted import LeapingClock

LIMITS: Final = Limits(timeout_s=10.0, first_step_s=60.0)
DUMP: Final = 'Current thread 0x7f (most recent call first):\n  File "/home/me/train.py", line 6 in spin\n'
STOOD: Final = "no progress for 10 s, step 2 was the last"


class FakeGroup:
    """One worker, whose process is this one; it writes no stacks by itself."""

    def __init__(self, *, dumps_stacks: bool) -> None:
        self.dumps_stacks = dumps_stacks
        self.asked = 0

    def pids(self) -> dict[int, int]:
        return {0: os.getpid()}

    def dump_stacks(self) -> None:
        self.asked += 1


class Scene:
    """A rank that has told `FIRST_SIGNS` steps, and its overseer."""

    def __init__(self, folder: Path, limits: Limits = LIMITS, *, dumps_stacks: bool = True) -> None:
        self.clock = LeapingClock()
        self.page = Page.create(1)
        self.rank = WorkerPage.attach(self.page.env_value(), 0)
        self.group = FakeGroup(dumps_stacks=dumps_stacks)
        self.log = LogFiles.of(folder, 0)
        group = cast(WorkerGroup, self.group)
        logs = {0: self.log}
        self.overseer = Overseer(limits, self.page, group, logs, look_s=1.0, clock=self.clock)
        for step in range(FIRST_SIGNS):
            self.rank.begin_step(step)

    def look(self, times: int = 1) -> tuple[Condemned, ...]:
        """The first looks, a second apart, up to one that condemns somebody."""
        for _ in range(times):
            self.clock.now_s += 1.0
            found = self.overseer.look([0])
            if found:
                return found
        return ()

    def look_until_asked(self) -> None:
        while not self.group.asked:
            assert self.look() == ()


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    made = Scene(tmp_path)
    before = signal.signal(bootstrap.DUMP_SIGNAL, lambda *_: None)  # this process can write stacks
    yield made
    signal.signal(bootstrap.DUMP_SIGNAL, before)
    made.page.close()


def of_no_progress(message: str) -> tuple[Condemned, ...]:
    return (Condemned(0, Cause.NO_PROGRESS, message),)


def test_stacks_are_taken_before_a_rank_is_condemned_and_its_line_is_named(scene: Scene) -> None:
    scene.look_until_asked()
    assert scene.overseer.look_within_s() < 0.1

    scene.log.err.write_text(DUMP)
    found = scene.look(2)

    assert found == of_no_progress(f"{STOOD}; it is at /home/me/train.py line 6 in spin")
    assert scene.group.asked == 1


def test_a_rank_that_goes_on_while_stacks_are_taken_is_spared(scene: Scene) -> None:
    scene.look_until_asked()

    scene.rank.begin_step(FIRST_SIGNS)

    assert scene.look(8) == ()
    assert scene.group.asked == 1


def test_stacks_that_do_not_come_are_not_waited_for(scene: Scene) -> None:
    scene.look_until_asked()

    assert scene.look(3) == of_no_progress(f"{STOOD}; it wrote no stacks")


def test_a_worker_that_runs_no_script_of_python_is_not_waited_for(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.look_until_asked()

    assert scene.look() == of_no_progress(
        f"{STOOD}; it runs no Python script now that could have written its stacks"
    )
    scene.page.close()


def test_a_program_that_is_no_python_writes_none(tmp_path: Path) -> None:
    scene = Scene(tmp_path, dumps_stacks=False)
    scene.look_until_asked()

    assert scene.look() == of_no_progress(f"{STOOD}; it is no Python program, so it wrote no stacks")
    scene.page.close()


def test_a_dump_is_no_output_that_breaks_the_silence(tmp_path: Path) -> None:
    scene = Scene(tmp_path, Limits(10.0, 60.0, Source.OUTPUT))
    scene.log.out.write_text("step 2\n")
    scene.look_until_asked()

    scene.log.err.write_text(DUMP)
    found: Any = scene.look(4)

    assert found[0].message.startswith(
        "no output of any rank of its node for 10 s; it is at /home/me/train.py"
    )
    scene.page.close()
