"""Jobs whose saves take longer than the grace time of their partition, and what became of their work.

For the gate in seconds, for `benchmarks/slow_save.py` as on a real site.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from tests.integration.slurm.bench import Bench
from tests.integration.slurm.digits_job import logs
from tests.waiting import wait_until

SCRIPT: Final = __file__.replace("slow_saves", "slow_save_job")
TRAINED: Final = "step 15\n"
WARNING: Final = re.compile(r"saving took (\d+) s before.*GraceTime=\d+ s.*save every (\d+) s")
_SAVED: Final = re.compile(r"^saved (\d+)$", re.MULTILINE)
_STEP: Final = re.compile(r"^step (\d+)$", re.MULTILINE)
# Beside the save itself: to start, to come to step 15, to be requeued.
_PATIENCE_S: Final = 240.0


@dataclass(frozen=True)
class Speed:
    """How long the partition gives, and how long a save takes."""

    grace_s: int
    save_s: int

    @property
    def patience_s(self) -> float:
        return _PATIENCE_S + 3 * self.save_s


@dataclass
class Lives:
    """One job in its lives."""

    bench: Bench
    job: str
    patience_s: float

    @classmethod
    def submit(cls, bench: Bench, speed: Speed, *options: str, words: tuple[str, ...], **env: int) -> Lives:
        """One job on one node; `env` are the variables of `slow_save_job.py`."""
        known = {"SAVE_S": str(speed.save_s)} | {name: str(value) for name, value in env.items()}
        job = bench.submit("-N", "1", *options, words=(SCRIPT, *words), env=known)
        return cls(bench, job, speed.patience_s)

    def text(self, life: int) -> str:
        found = [path for path in logs(self.bench, self.job, 0) if path.parts[-3] == str(life)]
        return "".join(path.read_text() for path in found)

    def wait_for(self, life: int, words: str, more_s: float = 0.0) -> None:
        wait_until(
            lambda: words in self.text(life),
            self.patience_s + more_s,
            f"{words!r} in life {life} of job {self.job}:\n{self.bench.output(self.job)}",
        )

    def end(self, more_s: float = 0.0) -> dict[str, str]:
        """Slurm's record of it, when it is over."""
        self.bench.end_of(self.job, timeout_s=self.patience_s + more_s)
        return self.bench.sandbox.job(self.job)

    def start_of(self, life: int) -> str:
        return self.text(life).partition("\n")[0]

    def saved_in(self, life: int) -> int:
        """The last step that was saved."""
        return max(int(step) for step in _SAVED.findall(self.text(life)))

    def reached_in(self, life: int) -> int:
        """The last step that was taken."""
        return max(int(step) for step in _STEP.findall(self.text(life)))


@dataclass
class Slow:
    """Jobs that were submitted together: two are preempted, one comes to its time limit."""

    agreed: Lives
    plain: Lives
    limited: Lives

    @classmethod
    def run(cls, bench: Bench, speed: Speed, limit_minutes: int = 1) -> Slow:
        """All of them, to their ends."""

        def submit(kind: str, node: str, last: int, *options: str) -> Lives:
            where = (f"--nodelist={node}", *options)
            return Lives.submit(bench, speed, *where, words=(kind,), LAST=last)

        # Slurm's own notice comes up to half a minute before its time, and not before the job trains.
        limit = (f"--time={limit_minutes}", "--signal=USR2@5")
        found = cls(submit("agreed", "n1", 3), submit("plain", "n2", 2), submit("agreed", "n3", 2, *limit))
        # The first stop has the time it needs, and teaches how much that is.
        found.agreed.wait_for(1, TRAINED)
        bench.sandbox.run(["scancel", "--signal=USR2", found.agreed.job], check=True)
        found.plain.wait_for(1, TRAINED)
        bench.sandbox.preempt(found.plain.job, seconds=1)
        found.agreed.wait_for(2, "step ")
        bench.sandbox.preempt(found.agreed.job, seconds=1)
        for lives in (found.agreed, found.plain, found.limited):
            lives.end(60.0 * limit_minutes)
        return found
