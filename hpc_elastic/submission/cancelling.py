"""The word in a run's record that nothing shall come after: for a batch side about to bring it back."""

from __future__ import annotations

import os
from contextlib import suppress

from hpc_elastic.agent.rundir import RunDirectory
from hpc_elastic.backends.file import FileBackend
from hpc_elastic.clock import Clock
from hpc_elastic.errors import BackendUnavailable
from hpc_elastic.rendezvous import outside
from hpc_elastic.status.snapshot import RunSnapshot


def keep_away(run: RunSnapshot, after_attempt: int, clock: Clock) -> None:
    """Say in the record that the run was cancelled; of a pool for every element.

    Attempts up to `after_attempt` belong to an earlier job. What cannot be written is left out: Slurm is
    told as well, and knows better in all other cases.
    """
    own = run.own_attempt
    if own is None or own.number <= after_attempt:
        return
    elements = (one for one in run.attempts if one.start.share and one.start.share == own.start.share)
    backend, writer = FileBackend(RunDirectory(run.run_dir).record), f"cancel-{os.urandom(4).hex()}"
    try:
        for number in {own.number, *(one.number for one in elements if one.number > after_attempt)}:
            with suppress(BackendUnavailable):
                outside.cancel(backend, number, clock.utc_now(), writer)
    finally:
        backend.close()
