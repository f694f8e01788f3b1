"""A run that has not begun: its job is in the queue, or has only just started."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from hpc_elastic.cli import runs
from hpc_elastic.clock import SYSTEM_CLOCK, Clock
from hpc_elastic.errors import UsageError
from hpc_elastic.slurm import commands
from hpc_elastic.slurm.commands import Runner

_LOOK_EVERY_S: Final = 2.0
_LATER_EVERY_S: Final = 30.0  # once it runs, and its run is not here
_HINT_AFTER_S: Final = 60.0


def find(text: str, *, clock: Clock = SYSTEM_CLOCK, runner: Runner = commands.run) -> Path:
    """The run directory that `text` names, waited for while a Slurm job of this number waits or runs.

    Says on standard error what it waits for. Raises `UsageError` where there is no run, and no such job.
    """
    try:
        return runs.find(text)
    except UsageError as refused:
        if not text.replace("_", "").isdecimal():
            raise
        return _await(text, refused, clock, runner)


def _await(job: str, refused: UsageError, clock: Clock, runner: Runner) -> Path:
    from hpc_elastic.submission.slurm_control import SlurmControl
    from hpc_elastic.submission.states import Sight

    control, said, began_s, pause_s = SlurmControl(job, clock, runner), "", None, _LOOK_EVERY_S
    while True:
        seen = control.look()
        if seen.sight is Sight.UNSEEN and not said:
            raise refused
        if seen.sight is not Sight.UNSEEN and str(seen) != said:
            said = str(seen)
            if seen.sight in (Sight.WAITING, Sight.ACTIVE):
                _say(f"{said}; waiting for its run to begin, Ctrl-C ends this alone")
        if seen.sight is not Sight.WAITING:  # before, there is no run, and each look reads all that are here
            try:
                return runs.find(job)
            except UsageError as again:
                refused = again
        if seen.sight in (Sight.ENDED, Sight.GONE):
            raise refused
        if seen.sight is Sight.ACTIVE:
            began_s = clock.monotonic_s() if began_s is None else began_s
            if pause_s == _LOOK_EVERY_S and clock.monotonic_s() - began_s >= _HINT_AFTER_S:
                pause_s = _LATER_EVERY_S
                _say(str(refused))
        clock.sleep_s(pause_s)


def _say(text: str) -> None:
    print(f"hpc-elastic: {text}", file=sys.stderr, flush=True)
