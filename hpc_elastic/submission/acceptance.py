"""Whether Slurm has taken a job: sent again only where it was surely not heard, else looked for.

An sbatch that was not answered may still have been heard: a controller that stood still takes what waited
in its socket when it wakes up (22.05.8). Sending it again would start a twin in the same directory. So such
a job is looked for in the queue, by the path of its script, which no other submission has.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Final

from hpc_elastic.clock import Clock
from hpc_elastic.errors import SubmissionError
from hpc_elastic.slurm import commands
from hpc_elastic.slurm.commands import Answer, Runner

PATIENCE_S: Final = 120.0
LOOKS: Final = 3  # without the job in it, before a queue is believed
_FIRST_PAUSE_S: Final = 1.0
_LAST_PAUSE_S: Final = 15.0
_LOOK_EVERY_S: Final = 5.0

# The connection was never made, or whoever answered does not take jobs (slurm_errno.c, 20.11 to 24.11).
_NOT_HEARD: Final = (
    "connect failure",
    "connection failure",
    "connection refused",
    "standby mode",
    "rate limit",
    "too many requests",
)

# The command comes last: it may hold anything, line ends too. Of an array it is asked for the array's number.
_QUEUE: Final = ("squeue", "-h", "-t", "all", f"--user={os.getuid()}", "--format=%F %o")


class Delivery(str, Enum):
    """What became of one call of sbatch."""

    TAKEN = "taken"
    REFUSED = "refused"
    NOT_HEARD = "not heard"
    IN_DOUBT = "in doubt"


@dataclass(frozen=True)
class Reply:
    """The answer to one call of sbatch: the job's number where it was taken, what was said where not."""

    delivery: Delivery
    job_id: str = ""
    said: str = ""

    @classmethod
    def to_failure(cls, complaint: str) -> Reply:
        """Of an sbatch that ended with an error."""
        said = " ".join(complaint.split()) or "sbatch gave no reason"
        if any(sign in said.lower() for sign in _NOT_HEARD):
            return cls(Delivery.NOT_HEARD, said=said)
        is_answered = not Answer((), 1, complaint=said).may_work_later
        return cls(Delivery.REFUSED if is_answered else Delivery.IN_DOUBT, said=said)


@dataclass(frozen=True)
class Counter:
    """Where jobs are handed in. Gives up after `PATIENCE_S`."""

    clock: Clock
    runner: Runner = commands.run

    def hand_in(self, send: Callable[[], Reply], script: Path) -> str:
        """The number of the job that `send` submits with `script`; SubmissionError says why there is none."""
        give_up_s = self.clock.monotonic_s() + PATIENCE_S
        pause_s = _FIRST_PAUSE_S
        while True:
            reply = send()
            if reply.delivery is Delivery.TAKEN:
                return reply.job_id
            if reply.delivery is Delivery.REFUSED:
                raise SubmissionError(f"Slurm did not take the job: {reply.said}")
            if reply.delivery is Delivery.IN_DOUBT:
                return self._looked_for(script, reply.said)
            if self.clock.monotonic_s() + pause_s > give_up_s:
                raise SubmissionError(
                    f"Slurm was out of reach for {PATIENCE_S:g} s and has no job: {reply.said}; "
                    "see `scontrol ping`, and submit again later"
                )
            if pause_s == _FIRST_PAUSE_S:
                _warn(f"Slurm is out of reach ({reply.said}); it is tried for {PATIENCE_S:g} s")
            self.clock.sleep_s(pause_s)
            pause_s = min(2 * pause_s, _LAST_PAUSE_S)

    def _looked_for(self, script: Path, said: str) -> str:
        """The number of a job that may have been taken. It is never sent again."""
        give_up_s = self.clock.monotonic_s() + PATIENCE_S
        looks = 0
        _warn(f"Slurm did not say whether it took the job ({said}); it is looked for in the queue")
        while True:
            answer = self.runner(_QUEUE, commands.TIMEOUT_S)
            number = find(answer.output, script) if answer.is_ok else None
            if number is not None:
                return number
            looks += answer.is_ok
            if looks >= LOOKS or self.clock.monotonic_s() + _LOOK_EVERY_S > give_up_s:
                shown = "shows none" if answer.is_ok else f"cannot be asked ({answer})"
                raise SubmissionError(
                    f"Slurm did not say whether it took the job ({said}), and its queue {shown}; "
                    "look at `squeue --me` before you submit again"
                )
            self.clock.sleep_s(_LOOK_EVERY_S)


def _warn(text: str) -> None:
    warnings.warn(text, RuntimeWarning, stacklevel=8)  # whoever called `submit`


def find(queue: str, script: Path) -> str | None:
    """The number of the job whose command begins with `script`, in the answer to `_QUEUE`."""
    found = re.search(rf"^(\d+) {re.escape(str(script))}(?=\s|$)", queue, re.MULTILINE)
    return found[1] if found else None
