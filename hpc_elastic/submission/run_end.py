"""Whether a run is over that `submit` has not made: by its record, and by Slurm where that may know more."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from hpc_elastic.clock import SYSTEM_CLOCK, Clock
from hpc_elastic.errors import HpcElasticError
from hpc_elastic.slurm import commands, job_record
from hpc_elastic.slurm.commands import Controller, Runner
from hpc_elastic.status import snapshot
from hpc_elastic.status.snapshot import AttemptSnapshot, RunSnapshot
from hpc_elastic.submission.local_control import LocalControl
from hpc_elastic.submission.orders import Orders
from hpc_elastic.submission.slurm_control import SlurmControl
from hpc_elastic.submission.states import judge

_ASK_AGAIN_S: Final = 60.0


class RunEnd:
    """Of the run in `run_dir`. A job that is taken out of the queue leaves no word: Slurm alone knows."""

    def __init__(self, run_dir: Path, clock: Clock = SYSTEM_CLOCK, runner: Runner = commands.run) -> None:
        self._run_dir = run_dir
        self._clock = clock
        self._runner = runner
        self._control: LocalControl | SlurmControl | None = None
        self._asked_about = 0
        self._ask_again_s = 0.0

    def has_come(self) -> bool:
        """Whether nothing more comes. Slurm is asked once all agents have left, and now and then."""
        run = snapshot.read(self._run_dir)
        own = run.own_attempt
        if run.is_over or own is None or own.is_by_hand or not run.has_left:
            return run.is_over
        now_s = self._clock.monotonic_s()
        if own.number != self._asked_about or (self._control is None and now_s >= self._ask_again_s):
            self._asked_about, self._ask_again_s = own.number, now_s + _ASK_AGAIN_S
            self._control = self._of(run, own)
        return self._control is not None and judge(run, 0, self._control.look()).state.is_final

    def _of(self, run: RunSnapshot, own: AttemptSnapshot) -> LocalControl | SlurmControl | None:
        """None where the Slurm of this host is another one, which would not know the job."""
        config = Controller(self._runner, self._clock, pauses_s=()).show_config()
        if job_record.cluster(config.output) != own.start.cluster:
            return None
        try:
            return Orders(self._run_dir, self._clock, self._runner).control(run)
        except HpcElasticError:
            return None
