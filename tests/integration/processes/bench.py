"""A bench for worker processes: scripts are written, started as a group, and brought to an end."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hpc_elastic.workers import tree
from hpc_elastic.workers.group import GroupState, WorkerGroup, WorkerStart, new_marker
from hpc_elastic.workers.process import Kind, Program
from tests.waiting import wait_until

PATIENCE_S = 90.0
ROOT = Path(__file__).resolve().parents[3]


@dataclass
class Bench:
    """Workers under one marker and one folder."""

    directory: Path
    marker: str = field(default_factory=new_marker)

    def script(self, text: str, name: str = "train.py") -> Program:
        """A script as a program."""
        path = self.directory / name
        path.write_text(text)
        return Program(Kind.SCRIPT, str(path))

    def command(self, *argv: str) -> Program:
        """A program that need not be Python."""
        return Program(Kind.COMMAND, argv[0], argv[1:])

    def starts(self, workers: int, env: Mapping[str, str]) -> list[WorkerStart]:
        """What each worker is started with; its error file is `<rank>.json`."""
        given = {**os.environ, "PYTHONPATH": str(ROOT), **env}
        return [
            WorkerStart(
                local_rank=rank,
                global_rank=10 + rank,
                env={
                    **given,
                    "LOCAL_RANK": str(rank),
                    "HPC_ELASTIC_LOCAL_SLOT": str(rank),
                    "TORCHELASTIC_ERROR_FILE": str(self.error_file(rank)),
                },
                stdout_path=self.directory / f"{rank}.out",
                stderr_path=self.directory / f"{rank}.err",
            )
            for rank in range(workers)
        ]

    def start(
        self,
        program: Program,
        workers: int = 1,
        env: Mapping[str, str] | None = None,
        pass_fds: Sequence[int] = (),
    ) -> WorkerGroup:
        """The started group."""
        starts = self.starts(workers, env or {})
        return WorkerGroup.start(program, starts, marker=self.marker, pass_fds=pass_fds)

    def error_file(self, rank: int = 0) -> Path:
        return self.directory / f"{rank}.json"

    def out(self, rank: int = 0) -> str:
        return (self.directory / f"{rank}.out").read_text()

    def err(self, rank: int = 0) -> str:
        return (self.directory / f"{rank}.err").read_text()

    def wait_for(self, text: str, rank: int = 0, timeout_s: float = PATIENCE_S) -> None:
        """Until the worker has printed `text`."""
        wait_until(lambda: text in self.out(rank), timeout_s, f"{text!r} in the output of rank {rank}")

    def left(self) -> list[tree.Process]:
        """What lives and carries the marker."""
        return tree.left_behind(self.marker, sessions=(), known=())


def until_exited(group: WorkerGroup, timeout_s: float = PATIENCE_S) -> GroupState:
    """The state once every worker has ended by itself."""
    wait_until(lambda: not group.poll().running, timeout_s, "all workers have ended")
    return group.poll()


def until_gone(group: WorkerGroup, grace_s: float, timeout_s: float = PATIENCE_S) -> GroupState:
    """The state once the group was stopped with this grace."""
    now_s = time.monotonic()
    group.begin_stop(now_s + grace_s, now_s)
    wait_until(lambda: group.advance(time.monotonic()).is_over, timeout_s, "the group is stopped and swept")
    return group.poll()


PYTHON = sys.executable
