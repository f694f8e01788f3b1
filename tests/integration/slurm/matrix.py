"""Which cells the matrix of preemptions has, and what happened to the job in one of them."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from hpc_elastic.rendezvous.record import Outcome
from hpc_elastic.status import snapshot
from hpc_elastic.testing.sandbox.options import PREEMPT_MODES, PreemptMode, SandboxOptions
from tests.integration.slurm.matrix_job import SAVE_EVERY

SignalTo = Literal["steps", "B:", "none"]
SIGNALS: tuple[SignalTo, ...] = ("steps", "B:", "none")
# Six jobs on two nodes each.
NODES, CPUS_PER_NODE = 4, 4

_STEP = re.compile(r"^step (\d+)$", re.MULTILINE)
_START = re.compile(r"^starts at (\d+)$", re.MULTILINE)


@dataclass(frozen=True, order=True)
class Site:
    """What the administrators have chosen."""

    mode: PreemptMode
    grace_s: int
    user_signal: bool

    @property
    def options(self) -> SandboxOptions:
        return SandboxOptions(
            nodes=NODES,
            cpus_per_node=CPUS_PER_NODE,
            grace_s=self.grace_s,
            preempt_mode=self.mode,
            user_signal=self.user_signal,
        )


@dataclass(frozen=True, order=True)
class Submission:
    """What the user has chosen: to whom the signal of `--signal` goes, and whether Slurm may requeue."""

    signal_to: SignalTo
    requeue: bool

    @property
    def sbatch(self) -> tuple[str, ...]:
        """The options; without a signal the template itself has to be without its line."""
        signal = {"steps": ("--signal=USR2@60",), "B:": ("--signal=B:USR2@60",), "none": ()}
        return (*signal[self.signal_to], "--requeue" if self.requeue else "--no-requeue")


SITES = tuple(Site(*chosen) for chosen in itertools.product(PREEMPT_MODES, (0, 20), (False, True)))
SUBMISSIONS = tuple(Submission(*chosen) for chosen in itertools.product(SIGNALS, (True, False)))


@dataclass(frozen=True)
class Observed:
    """What happened to one job, by the run's record, the output of its ranks, and Slurm.

    `told` counts for the rank that was told most often in the first life, `lost_steps` for the rank that
    lost most. `comes_back` says by what.
    """

    cause: str
    signal: str
    told: int
    saved: str
    lost_steps: int
    state: str
    restarts: int
    comes_back: str
    said: str

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


# A pairwise part: any two choices, by whomever, meet in one of its cells.
PAIRS: dict[Site, tuple[Submission, ...]] = {
    site: tuple(Submission(to, requeue=(to == "B:") != is_even) for to in SIGNALS)
    for site, is_even in (
        (Site("requeue", 0, False), True),
        (Site("requeue", 20, True), False),
        (Site("cancel", 0, True), False),
        (Site("cancel", 20, False), True),
    )
}


def expected(site: Site, submission: Submission) -> str:
    """By what the job comes back."""
    slurm_ends_it = site.mode == "cancel" or not submission.requeue
    return "continuation job" if site.grace_s == 0 and slurm_ends_it else "requeue"


def faults(seen: Observed) -> Iterator[str]:
    """What is wrong with `seen` in any cell: work is lost only back to the last periodic save."""
    if seen.told > 1:
        yield f"a rank was told {seen.told} times"
    if seen.lost_steps > SAVE_EVERY:
        yield f"{seen.lost_steps} steps are lost, more than one save in {SAVE_EVERY} can explain"
    if seen.saved == "all" and seen.lost_steps:
        yield f"all ranks saved and {seen.lost_steps} steps are lost"


def observe(run_dir: Path, record: dict[str, str], output: str) -> Observed:
    """Put together what one job left behind. `record` is Slurm's, `output` that of the batch script."""
    run = snapshot.read(run_dir)
    ranks = tuple(_Rank.read(run_dir, rank) for rank in _ranks(run_dir))
    first = run.attempts[0] if run.attempts else None
    why = first.why_stopped if first else None
    outcomes = {one.outcome for one in run.presences if one.attempt == 1}
    return Observed(
        cause=why.reason.value if why else "none",
        signal=why.signal if why else "",
        told=max((rank.told for rank in ranks), default=0),
        saved=_saved(outcomes),
        lost_steps=max((rank.lost_steps for rank in ranks), default=0),
        state=record["JobState"],
        restarts=int(record.get("Restarts", "0")),
        comes_back=_comes_back(run, record["JobId"]),
        said=next((line for line in reversed(output.splitlines()) if "(status" in line), ""),
    )


@dataclass(frozen=True)
class _Rank:
    """One rank over its lives."""

    told: int
    lost_steps: int

    @classmethod
    def read(cls, run_dir: Path, rank: int) -> _Rank:
        paths = sorted(
            run_dir.glob(f"logs/*/*/{rank}.out"), key=lambda path: (int(path.parts[-3]), int(path.parts[-2]))
        )
        lives = [path.read_text() for path in paths]
        reached = max((int(step) + 1 for step in _STEP.findall(lives[0])), default=0)
        if len(lives) > 1 and (start := _START.search(lives[1])):
            resumed = int(start.group(1))
        else:
            kept = run_dir / "checkpoints" / f"{rank}.txt"
            resumed = int(kept.read_text()) if kept.exists() else 0
        is_done = "done" in lives[0]
        return cls(lives[0].count("\ntold "), 0 if is_done else reached - resumed)


def _ranks(run_dir: Path) -> list[int]:
    return sorted({int(path.stem) for path in run_dir.glob("logs/*/*/*.out")})


def _saved(outcomes: set[Outcome | None]) -> str:
    if outcomes and outcomes <= {Outcome.SAVED}:
        return "all"
    if outcomes and outcomes <= {Outcome.DONE}:
        return "done"
    return "some" if Outcome.SAVED in outcomes else "none"


def _comes_back(run: snapshot.RunSnapshot, job_id: str) -> str:
    later = [one.start.job_id for one in run.attempts[1:]]
    if not later:
        return "no"
    return "requeue" if later[0] == job_id else "continuation job"
