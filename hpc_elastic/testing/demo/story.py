"""The story itself: what is waited for, in which words it is told, and whether it really happened."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from hpc_elastic.rendezvous.record import Reason
from hpc_elastic.status.snapshot import RoundSnapshot
from hpc_elastic.testing.demo.watching import JobLook, Seen, Watch

NODES: Final = 4
STEPS: Final = 240
STEP_SECONDS: Final = 0.08
DISTURB_AT_STEP: Final = 60
LEAST_ACCURACY: Final = 0.9
SCRIPT_ARGUMENTS: Final = (f"--steps={STEPS}", f"--step-seconds={STEP_SECONDS}", "--print-every=10")

_PATIENCE_S: Final = 180.0


class Stage(Protocol):
    """Where the story plays: a private Slurm, or the local cluster."""

    run_dir: Path

    def submit(self) -> str:
        """Start the training; what was done, for the audience."""
        ...

    def disturb(self) -> str:
        """Let somebody else take the nodes; what was done, for the audience."""
        ...

    def look(self) -> JobLook:
        """The job as its scheduler shows it now."""
        ...

    def finished(self, seen: Seen) -> bool:
        """Whether the scheduler, too, holds the job for done."""
        ...


@dataclass(frozen=True)
class Claim:
    """Something that the story says, and whether it is true."""

    words: str
    holds: bool


def tell(stage: Stage, watch: Watch, say: Callable[[str], None]) -> tuple[Claim, ...]:
    """Play the story; the claims it amounts to. Raises `StoryBroken` when a scene does not come."""
    say(stage.submit())
    first = _training_begins(watch, say)
    watch.until("training", lambda seen: seen.step(first.number) >= DISTURB_AT_STEP, _PATIENCE_S)
    say(f"training: past step {DISTURB_AT_STEP} of {STEPS}, and now")
    say(stage.disturb())
    stop_step = _everybody_saves_and_leaves(watch, say, first)
    _, seen = watch.until("the requeue", lambda seen: seen.job.restarts >= 1, _PATIENCE_S)
    say(f"requeued by itself: the same job, Restarts={seen.job.restarts}, now {seen.job.state}")
    second = _training_resumes(watch, say, first)
    _, seen = watch.until("the end", stage.finished, 2 * _PATIENCE_S)
    say(f"{seen.job.state}: {STEPS} steps done, test accuracy {seen.accuracy or 0:.4f}")
    return claims(seen, first, second, stop_step)


def claims(seen: Seen, first: RoundSnapshot, second: RoundSnapshot, stop_step: int) -> tuple[Claim, ...]:
    """What must be true for the story to have happened, from the last look at the run."""
    starts = seen.first_steps(second.number)
    accuracy = seen.accuracy or 0.0
    return (
        Claim(f"all {NODES} ranks stopped after step {stop_step}, saved", seen.all_saved(first.attempt)),
        Claim(
            f"all {NODES} ranks resumed at step {stop_step + 1}: none lost, none done twice",
            list(starts.values()) == [stop_step + 1] * NODES,
        ),
        Claim("requeued once", seen.job.restarts == 1 and len(seen.run.attempts) == 2),
        Claim(
            "the run is done, and its job COMPLETED", seen.run.has_succeeded and seen.job.state == "COMPLETED"
        ),
        Claim(f"test accuracy at least {LEAST_ACCURACY:.0%}", accuracy >= LEAST_ACCURACY),
    )


def _training_begins(watch: Watch, say: Callable[[str], None]) -> RoundSnapshot:
    first, seen = watch.until("the first round", lambda seen: seen.rounds[:1], _PATIENCE_S)
    names = " ".join(member.name for member in first[0].members)
    say(
        f"{seen.job.state}: one agent on each of {names}; ranks 0 to {first[0].proposal.world_size - 1} train"
    )
    return first[0]


def _everybody_saves_and_leaves(watch: Watch, say: Callable[[str], None], first: RoundSnapshot) -> int:
    attempt, number = first.attempt, first.number
    _, seen = watch.until("the notice", lambda seen: _why_stopped(seen, attempt), _PATIENCE_S)
    noticed_s = watch.elapsed_s
    say(_why_stopped(seen, attempt))
    stop, _ = watch.until("the agreed stop", lambda seen: _stop_step(seen, number), _PATIENCE_S)
    say(f"agreed stop: every rank stops after step {stop[0]}, without a collective")
    _, seen = watch.until("the agents leave", lambda seen: seen.all_left(attempt), _PATIENCE_S)
    outcome = "all saved" if seen.all_saved(attempt) else "NOT all saved"
    say(f"all agents have left, {outcome}, {watch.elapsed_s - noticed_s:.1f} s after the notice")
    return stop[0]


def _why_stopped(seen: Seen, attempt: int) -> str:
    """The notice in words, once its cause is known; empty before."""
    found = seen.run.attempt(attempt)
    why = found.why_stopped if found else None
    if found is None or why is None or (why.reason is Reason.UNKNOWN and not seen.all_left(attempt)):
        return ""
    heard = f" ({found.notice.signal})" if found.notice and found.notice.signal else ""
    return f"notice{heard}: {why.reason.value}, {why.seconds_left:.0f} s to save and leave"


def _stop_step(seen: Seen, round_number: int) -> tuple[int, ...]:
    found = seen.run.round(round_number)
    return (found.stop.step,) if found and found.stop else ()


def _training_resumes(watch: Watch, say: Callable[[str], None], first: RoundSnapshot) -> RoundSnapshot:
    def resumed(seen: Seen) -> tuple[RoundSnapshot, ...]:
        later = [one for one in seen.rounds if one.attempt > first.attempt]
        return tuple(one for one in later if len(seen.first_steps(one.number)) == one.proposal.world_size)

    second, seen = watch.until("the second start", resumed, 2 * _PATIENCE_S)
    starts = ", ".join(str(step) for step in sorted(set(seen.first_steps(second[0].number).values())))
    say(f"{seen.job.state} again on {_names(second[0])}: all ranks resume at step {starts}")
    return second[0]


def _names(one: RoundSnapshot) -> str:
    return " ".join(member.name for member in one.members)
