"""A controller that answers from a script, and a clock that stands still but for its own sleeps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from hpc_elastic.slurm.commands import Answer, Controller


@dataclass
class FakeClock:
    """Time that passes only while somebody sleeps."""

    now_s: float = 100.0

    def monotonic_s(self) -> float:
        return self.now_s

    def sleep_s(self, seconds: float) -> None:
        self.now_s += seconds

    def utc_now(self) -> str:
        return "2026-03-01T12:00:00+00:00"


@dataclass
class FakeScontrol:
    """Runs nothing; `answer` is asked with the words behind `scontrol`. `asked` keeps them."""

    answer: Callable[[str], Answer | str | None]
    asked: list[str] = field(default_factory=list)
    clock: FakeClock = field(default_factory=FakeClock)

    def __call__(self, command: Sequence[str], timeout_s: float) -> Answer:
        words = " ".join(command[1:])
        self.asked.append(words)
        found = self.answer(words)
        if found is None:
            self.clock.sleep_s(timeout_s)
            return Answer(tuple(command), None, complaint=f"no answer in {timeout_s:g} s")
        return Answer(tuple(command), 0, found) if isinstance(found, str) else found

    def controller(self, pauses_s: tuple[float, ...] = (0.5, 1.0)) -> Controller:
        return Controller(runner=self, clock=self.clock, timeout_s=4.0, pauses_s=pauses_s)


def refused(complaint: str, status: int = 1) -> Answer:
    return Answer(("scontrol",), status, complaint=complaint)
